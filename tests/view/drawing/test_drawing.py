"""Drawings of fabrics: nothing overlaps, nothing is cut, and what is odd has a sign."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from itertools import combinations

import pytest

import antiphon
from antiphon.view.drawing import Drawing, draw

FABRICS = (
    *("ring:2", "ring:16", "mesh:8", "mesh:4x4", "mesh:2x3x4", "torus:4x4", "torus:4x4x4", "torus:2x3x4x2", "fc:5"),
    *("fc:16", "fbfly:4x4", "ub-mesh:2x2x3x3", "hypercube:4", "switch:4", "switch:64", "bigraph:2x2", "dgx1v"),
    *(
        "dgx-a100:2",
        "dgx-h100:1",
        "dgx-h100:2",
        "dgx-h100:4",
        "dgx-h100:12",
        "dgx-h100:4:nics=2",
        "mi250:1",
        "mi300x:3",
    ),
    *(
        "h800:2:rails=leaf-spine",
        "gb200-nvl72:2",
        "fat-tree:2x3:ratio=3",
        "fat-tree:4",
        "fat-tree:8",
        "slimfly:3:hosts=1",
    ),
    *("dragonfly:1,2,1", "dragonfly:2,4,2", "jellyfish:8,5,2,1", "hammingmesh:1x2x2x2", "tpu-v4:2x2x4", "tt-galaxy"),
    *("aries:4x4,x0=0-3", "mesh:6x10,drop=3-4,drop=22-32,dead=15,exclude=59", "switch:8,dead=3", "fugaku:2x2x2"),
    *("packages:2x3:of=2x2", "packages:2x2:of=2x2:torus", "wafer:7x7", "wafer:12x12,dead=random:5:1"),
)
LETTER = 0.6
"""Width of a letter in the middle, as a part of its size."""


@cache
def drawn(spec: str) -> Drawing:
    fabric = antiphon.Fabric(spec)
    bound = antiphon.lower_bound(fabric, bytes="1MiB") if fabric.ranks <= 64 else None
    return draw(fabric, bound)


def numbers(path: str) -> list[tuple[float, float]]:
    """The points of a path."""
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]


@pytest.mark.parametrize("spec", FABRICS)
def test_no_node_overlaps_another_and_none_is_cut(spec: str) -> None:
    drawing = drawn(spec)
    for node in drawing.nodes:
        half = node.outline.half_width
        assert half <= node.x <= drawing.width - half
        assert node.outline.radius <= node.y <= drawing.height - node.outline.radius
    for one, other in combinations([node.outline for node in drawing.nodes], 2):
        across, down = abs(one.x - other.x), abs(one.y - other.y)
        assert (
            across > one.half_width + other.half_width
            or down > one.radius + other.radius
            or (math.hypot(across, down) > one.radius + other.radius and not (one.box or other.box))
        )


@pytest.mark.parametrize("spec", FABRICS)
def test_texts_fit(spec: str) -> None:
    drawing = drawn(spec)
    for node in drawing.nodes:
        assert LETTER * node.size * len(node.text) <= 2 * node.outline.half_width
        assert not node.text or node.size >= 7
        if node.below:
            assert LETTER * 9.5 * len(node.below) / 2 <= min(node.x, drawing.width - node.x)


@pytest.mark.parametrize("spec", FABRICS)
def test_links_begin_and_end_at_their_nodes(spec: str) -> None:
    fabric, drawing = antiphon.Fabric(spec), drawn(spec)
    links = fabric.links
    assert len(drawing.links) == len(links["from"])
    for link, a, b in zip(drawing.links, links["from"].tolist(), links["to"].tolist(), strict=True):
        points = numbers(link.path)
        start, end = drawing.nodes[a].outline, drawing.nodes[b].outline
        for (x, y), at in ((points[0], start), (points[-2], end)):  # the last is that of the arrow head
            off = max(abs(x - at.x) - at.half_width, abs(y - at.y) - at.radius)
            assert -at.half_width <= off <= 2
        assert all(-1 <= x <= drawing.width + 1 and -1 <= y <= drawing.height + 1 for x, y in points[:1] + points[-2:])


@pytest.mark.parametrize("spec", ["torus:4x4", "torus:3x5", "torus:4x4x4", "fbfly:4x4", "dgx-h100:4", "switch:16"])
def test_no_straight_link_hides_behind_a_node(spec: str) -> None:
    drawing, links = drawn(spec), antiphon.Fabric(spec).links
    for link, a, b in zip(drawing.links, links["from"].tolist(), links["to"].tolist(), strict=True):
        if "C" in link.path or "wrap" in link.kinds:
            continue
        (x0, y0), (x1, y1) = numbers(link.path)[:2]
        for number, node in enumerate(drawing.nodes):
            if number not in (a, b) and not node.outline.box:
                share = ((node.x - x0) * (x1 - x0) + (node.y - y0) * (y1 - y0)) / max(
                    (x1 - x0) ** 2 + (y1 - y0) ** 2, 1
                )
                at = min(max(share, 0), 1)
                away = math.hypot(x0 + at * (x1 - x0) - node.x, y0 + at * (y1 - y0) - node.y)
                assert away > 0.5 * node.outline.radius


def test_the_markup_of_a_tiny_fabric() -> None:
    svg = str(draw(antiphon.Fabric("ring:2")).svg("two <ranks>", ["u3", "u0"], ["there", "back"], ["", "hot"]))
    assert 'aria-label="two &lt;ranks&gt;"' in svg
    assert re.findall(r'<path class="([^"]*)" data-link="(\d)"', svg) == [("link u3", "0"), ("link u0", "1")]
    assert re.findall(r'<g class="([^"]*)" data-node="(\d)" data-rank="(\d)">', svg) == [
        ("node rank", "0", "0"),
        ("node rank hot", "1", "1"),
    ]
    assert re.findall(r"<title>([^<]*)</title>", svg) == ["there", "back", "rank 0", "rank 1"]
    assert " id=" not in svg  # several on one page are fine


def test_wrap_around_links_are_two_halves() -> None:
    fabric = antiphon.Fabric("torus:4x5")
    links = draw(fabric).links
    wraps = [link for link in links if "wrap" in link.kinds]
    assert len(wraps) == 2 * (4 + 5)
    assert all(link.path.count("M") == 2 for link in wraps)
    assert all(link.path.count("M") == 1 for link in links if "wrap" not in link.kinds)


def test_boxes_are_frames_with_their_switches_inside() -> None:
    drawing = draw(antiphon.Fabric("dgx-h100:4"))
    assert [frame.text for frame in drawing.frames] == ["box 0", "box 1", "box 2", "box 3"]
    for node in drawing.nodes:
        within = [
            number
            for number, frame in enumerate(drawing.frames)
            if frame.left < node.x < frame.right and frame.top < node.y < frame.bottom
        ]
        if node.name.startswith("rail"):
            assert within == []
        else:
            box = node.rank // 8 if node.rank >= 0 else int(node.name.removeprefix("nvswitch"))
            assert within == [box]


def test_a_clique_bends_links_past_nodes() -> None:
    fabric = antiphon.Fabric("fbfly:4x4")
    links, drawing = fabric.links, draw(fabric)
    names = fabric.nodes["coord_1"], fabric.nodes["coord_0"]
    for link, a, b in zip(drawing.links, links["from"], links["to"], strict=True):
        far = max(abs(column[a] - column[b]) for column in names) > 1
        assert ("C" in link.path) == far


def test_what_is_broken_has_a_sign() -> None:
    fabric = antiphon.Fabric("mesh:4x4,drop=1-2,slow=0-1:0.5,dead=10,exclude=15")
    drawing = draw(fabric)
    kinds = dict(drawing.signs)
    assert {"rank", "forwards", "dead", "slow", "ghost"} == set(kinds)
    assert [node.name for node in drawing.nodes if node.kind == "dead"] == ["10"]
    assert [node.name for node in drawing.nodes if node.kind == "forwards"] == ["15"]
    assert len(drawing.ghosts) == 1 + 4  # the dropped pair, and those of the dead node
    slowed = [link.name for link in drawing.links if "slow" in link.kinds]
    assert slowed == ["0 → 1, slowed to 0.5 of its rate", "1 → 0, slowed to 0.5 of its rate"]
    svg = drawing.svg("broken")
    assert svg.count('class="ghost"') == 5
    assert svg.count('class="cross"') == 1


def test_what_works_needs_no_legend() -> None:
    assert draw(antiphon.Fabric("mesh:3x3")).signs == []


def test_switches_that_add_and_ranks_left_out_have_signs() -> None:
    drawing = draw(antiphon.Fabric("switch:4,switches=in-tree"), excluded=[2])
    assert [node.kind for node in drawing.nodes] == ["rank", "rank", "excluded", "rank", "reducing"]
    assert {"rank", "reducing", "excluded"} <= dict(drawing.signs).keys()
    assert drawing.nodes[2].title == "rank 2, left out"


def test_the_rate_of_a_link_is_its_width() -> None:
    fabric = antiphon.Fabric("dgx-h100:2")
    width = {str(label): link.width for label, link in zip(fabric.links["dimension"], draw(fabric).links, strict=True)}
    assert width["nvlink"] > 1.5 * width["rail"]
    assert "rate" in dict(draw(fabric).signs)
    assert len({link.width for link in draw(antiphon.Fabric("mesh:3x3")).links}) == 1


def test_parallel_links_lie_side_by_side() -> None:
    links = draw(antiphon.Fabric("dgx1v")).links
    assert len({link.path for link in links}) == len(links) == 48


@pytest.mark.parametrize(
    ("spec", "collective", "sentence"),
    [
        ("mesh:4x8", "all-to-all", "Cut: 4 links of 25 GB/s lead from the left half to the right half."),
        ("mesh:8x4", "all-to-all", "Cut: 4 links of 25 GB/s lead from the upper half to the lower half."),
        ("torus:4x4x2", "all-to-all", "Cut: 16 links of 25 GB/s lead from the front half to the back half."),
        ("dgx-h100:4", "all-to-all", "Cut: 8 links of 48 GB/s lead from box 0 to the other boxes."),
        ("mesh:4x8", "all-gather", "Cut: 2 links of 25 GB/s lead to rank 0 from the other 31 ranks."),
        ("dgx-h100:2", "all-reduce", "Partition: 16 links of 48 GB/s join box 0 and the other box."),
        ("dgx-h100:4", "all-reduce", "Partition: 32 links of 48 GB/s leave 4 groups of ranks."),
        ("switch:9,slow=3-switch:0.1", "all-gather", "Cut: 1 link of 2.5 GB/s leads to rank 3 from the other 8 ranks."),
        (
            "ring:8",
            "all-reduce",
            "Partition: 16 links of 25 GB/s leave single ranks. These are all links, so none is marked.",
        ),
    ],
)  # fmt: skip
def test_the_limit_is_named(spec: str, collective: str, sentence: str) -> None:
    fabric = antiphon.Fabric(spec)
    bound = antiphon.lower_bound(fabric, collective, bytes="1GiB")
    drawing = draw(fabric, bound)
    assert drawing.sentence == sentence
    assert drawing.sentence.startswith("Cut") == ("cut" in str(drawing.signs)) or not drawing.sides


def test_the_sides_of_a_cut_are_marked() -> None:
    fabric = antiphon.Fabric("dgx-h100:2")
    bound = antiphon.lower_bound(fabric, bytes="1GiB")
    drawing = draw(fabric, bound)
    assert len(drawing.sides) == 2
    assert drawing.svg("cut").count('class="side side') == 2
    assert set(drawing.limits) == set(bound.limit.links)
    whole = draw(antiphon.Fabric("ring:8"), antiphon.lower_bound("ring:8", bytes="1GiB"))
    assert not whole.sides  # every rank by itself
    assert not whole.limits  # all links are the limit: none is pointed out


@pytest.mark.parametrize("spec", ["mesh:4x5,dead=17", "mesh:4x4,exclude=5", "mesh:4x4,dead=3,exclude=5"])
def test_one_numbering(spec: str) -> None:
    """Texts of nodes are the names that links have, also where ranks are numbered otherwise."""
    drawing = draw(antiphon.Fabric(spec))
    texts = [node.text for node in drawing.nodes]
    assert texts == [str(number) for number in range(len(texts))]
    other = next(node for node in drawing.nodes if node.rank >= 0 and node.text != str(node.rank))
    assert drawing.numbering.endswith(f"node {other.name} is rank {other.rank}.")
    assert other.title == f"node {other.name}, rank {other.rank}"
    assert not draw(antiphon.Fabric(spec.split(",")[0])).numbering
    assert drawing.numbering in antiphon.picture(spec).svg


def test_large_fabrics_are_heat_maps() -> None:
    fabric = antiphon.Fabric("mesh:32x32")
    drawing = draw(fabric)
    assert drawing.heat
    assert not drawing.links
    svg = drawing.svg("heat", node_classes=["u3"] * 1024)
    assert re.findall(r'data-node="(\d+)"', svg) == [str(node) for node in range(1024)]
    assert svg.count('class="node cell rank u3"') == 1024
    assert len(svg) < 130_000
    places = {(node.x, node.y) for node in drawing.nodes}
    assert len(places) == 1024
    assert (drawing.nodes[0].x, drawing.nodes[33].x) < (drawing.nodes[1].x, drawing.nodes[34].x)


@pytest.mark.parametrize("spec", ["torus:16x16x4", "fc:128", "switch:1200"])
def test_cells_of_heat_maps_do_not_overlap(spec: str) -> None:
    drawing = draw(antiphon.Fabric(spec))
    assert drawing.heat
    side = 2 * drawing.nodes[0].outline.radius
    cells = {(round(node.x, 3), round(node.y, 3)) for node in drawing.nodes}
    assert len(cells) == len(drawing.nodes)
    rows: dict[float, list[float]] = {}
    for x, y in cells:
        rows.setdefault(y, []).append(x)
    assert all(b - a >= side for row in rows.values() for a, b in zip(sorted(row), sorted(row)[1:], strict=False))
    assert max(x for x, _ in cells) < drawing.width
    assert max(y for _, y in cells) < drawing.height


def test_graphs_without_coordinates() -> None:
    """A tree, and a clique, without a word about where to draw them."""
    pairs = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    for edges in (pairs, [(a, b) for a in range(7) for b in range(a)]):
        links = [{"from": a, "to": b} for a, b in edges]
        nodes = [{"name": f"host-{number}"} for number in range(7)]
        text = json.dumps({"schema": "antiphon-fabric/1", "nodes": nodes, "links": links})
        drawing = draw(antiphon.Fabric.from_json(text))
        outlines = [node.outline for node in drawing.nodes]
        for a, b in combinations(outlines, 2):
            assert math.hypot(a.x - b.x, a.y - b.y) > a.radius + b.radius
