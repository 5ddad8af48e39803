"""Sections III-A and V and Table II of the TTO paper: what fits a chiplet, trees and steps, the system."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import antiphon
from antiphon import Fabric, Schedule
from antiphon.papers.tto.allreduce import BI_ODD_CORNER, KIB, MODELS, MULTI_TREE, SYSTEM, TTO
from antiphon.papers.tto.artifact import DATA
from antiphon.repro.charts import Chart, Line
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Rows
from antiphon.repro.table import Entry, Table, grid

TREES = [series for series in DATA.series.values() if series.more["kind"] == "tree"]
"""By their roots, in the order of ``tto``'s lanes."""
FREE = antiphon.System("ideal")
"""Pads nothing, so that messages are as large as their data."""
THIRD = ("shells", "breadth-first")
"""Of the third tree: as in the artifact, and as the paper says."""
Edge = tuple[int, int]
"""Child and parent."""


def iii_a(_quick: bool) -> Steps:
    """What fits a chiplet."""
    yield []
    table = Table()
    for model in MODELS:
        sizes = [int(row["params"]) for row in DATA.table("layers") if row["model"] == model.published]
        # 8 bits a weight.
        table.append({"series": model, "what": "largest layer", "size": max(sizes) / 1e6, "KiB": max(sizes) / KIB})
    rows = Rows(DATA, "iii-a", table, "MB", "size")
    buffer = {"what": "weights of a chiplet: 64 PEs of 32 KiB each"}
    rows.add(buffer, "MiB", 64 * 32 * KIB / (1 << 20), "SPRINT", key="chiplet", note=DATA.texts["chiplet"])
    for what, unit, ours in (
        ("least", "KiB", min(table.column("KiB"))),
        ("most", "MiB", table.values("KiB").most / KIB),
    ):
        rows.add(buffer, unit, ours, "As the text says", f"largest layer of a model, {what}", f"largest layer, {what}")
    return Outcome(table, rows)


def steps_of(fabric: Fabric, schedule: Schedule) -> int:
    """Steps of the first phase of a schedule that is proven, also that no link has two messages in one."""
    assert antiphon.verify(fabric, schedule).complete
    steps: int = schedule.stats(fabric).phases[0][1]
    return steps


def on_a_line(chunks: int) -> tuple[Fabric, Schedule]:
    """Trees 1 and 4 of Fig. 4, half of every chunk each; chunks follow each other, as in Fig. 5."""
    fabric, half = Fabric("mesh:4"), 4 * KIB * chunks
    builder = antiphon.ScheduleBuilder(fabric, "all-reduce", 2 * half, "two trees", conflict_free=True)
    ways = [(builder.lane(root * half, half, chunks), [0, 1, 2, 3][:: 1 - 2 * root]) for root in (0, 1)]
    builder.phase("reduce-scatter")
    for lane, way in ways:
        for step in range(3):
            builder.reduce(way[3 - step], way[2 - step], lane, step)
    builder.phase("all-gather")
    for lane, way in ways:
        for step in range(3):
            builder.copy(way[step], way[step + 1], lane, step)
    return fabric, builder.finish()


def fig3(_quick: bool) -> Steps:
    """RingBiOdd on the smallest odd mesh."""
    yield []
    fabric, table = Fabric("mesh:3x3"), Table()
    phases = antiphon.build(fabric, BI_ODD_CORNER.run, bytes=72 * KIB, system=FREE).stats(fabric).phases
    for what, steps in ("ReduceScatter", phases[0][1]), ("AllReduce", phases[0][1] + phases[1][1]):
        table.append({"what": what, "steps": steps})
    rows = Rows(DATA, "fig3")
    for e in table:
        rows.add(e, "", e["steps"], "Timesteps", key=e["what"], own=COUNTED)
    return Outcome(table, rows)


def fig4(_quick: bool) -> Steps:
    """All trees one chunk after the other, and two trees with chunks that follow each other."""
    yield []
    fabric, chunk = Fabric("mesh:4"), 8 * KIB
    every = antiphon.build(fabric, MULTI_TREE.run, "reduce-scatter", chunk, FREE)
    in_turn, least = every.stats(fabric).steps, every.transfers["message_bytes"].max()
    unused = len(fabric.links["from"]) * in_turn - len(every.transfers["from"])
    table = Table()
    for chunks in range(1, 11):
        line, two = on_a_line(chunks)
        # A step's message over that of all trees: how many of their steps it takes.
        width = int(two.transfers["message_bytes"].max() // least)
        both = {"all trees": in_turn * chunks, "two trees": width * steps_of(line, two)}
        ratio = both["two trees"] / both["all trees"]
        table.append({"what": f"{chunks} chunks", "chunks": chunks, "two over all": ratio} | both)
    rows = Rows(DATA, "fig4")
    one, after_two, five = table[0], table[1], table[4]
    for key, ours in (
        ("timesteps of a chunk, all trees", one["all trees"]),
        ("links that a chunk leaves unused, all trees", unused),
        ("chunk 1 is reduced after, two trees", one["two trees"]),
        ("chunk 2 is reduced after, two trees", after_two["two trees"]),
        ("5 chunks, all trees", five["all trees"]),
        ("5 chunks, two trees", five["two trees"]),
    ):
        rows.add(one, "", ours, "Four nodes on a line", key, key, own=COUNTED)
    names = (MULTI_TREE, "all trees"), (TTO, "two trees")
    lines = [Line(str(series), table.column("chunks"), table.column(name)) for series, name in names]
    return Outcome(
        table, rows, [Chart("ReduceScatter: all trees in turn, two overlapped", "chunks", "timesteps", lines=lines)]
    )


def trees_of(schedule: Schedule) -> list[list[Edge]]:
    """The edges up which sums of every lane go."""
    sent = schedule.transfers
    edges: list[list[Edge]] = [[] for _ in schedule.lanes["offset"]]
    for transfer, lane in zip(schedule.payloads["transfer"].tolist(), schedule.payloads["lane"].tolist(), strict=True):
        if sent["reduces"][transfer]:
            edges[lane].append((int(sent["from"][transfer]), int(sent["to"][transfer])))
    return edges


def walk(edges: list[Edge], at: int) -> Iterator[int]:
    """Once around a tree: down every edge and back."""
    yield at
    for child in (child for child, parent in edges if parent == at):
        yield from walk(edges, child)
        yield at


def most_trees(fabric: Fabric, trees: int = 4) -> int:
    """Most trees of all ranks, with any roots, of which no two use a link.

    Edmonds (1973): there are some if into every set of ranks come as many links as trees have roots outside it.
    O(2^ranks * choices of roots).
    """
    links = list(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))
    sets = range(1, 1 << fabric.ranks)
    into = [sum(1 for start, end in links if one >> end & 1 and not one >> start & 1) for one in sets]

    def fit(roots: tuple[int, ...]) -> bool:
        return all(sum(not one >> root & 1 for root in roots) <= count for one, count in zip(sets, into, strict=True))

    choices = (n for n in range(trees, 0, -1) if any(map(fit, combinations_with_replacement(range(fabric.ranks), n))))
    return next(choices, 0)


def fig6(quick: bool) -> Steps:
    """The three trees."""
    yield []
    table = Table()
    sides = [(3, 3), (2, 2), (2, 3), (4, 4), (3, 5), (8, 8), (7, 12), (16, 16)]
    for case in grid(sides=sides[: 2 if quick else None], third=THIRD, chunks=(1, 5, 100)):
        (rows, columns), chunks = case["sides"], case["chunks"]
        fabric, spec = Fabric(f"mesh:{rows}x{columns}"), f"{TTO.run}:third={case['third']},chunk=12KiB"
        schedule = antiphon.build(fabric, spec, "all-reduce", 12 * KIB * chunks, FREE)
        trees, links = trees_of(schedule), len(fabric.links["from"])
        heights = [lane["reduce_height"] for lane in schedule.stats(fabric).to_dict()["lanes"]]
        table.append(
            case
            | {"what": f"{rows}x{columns}, {chunks} chunks", "edges": trees, "rows": rows, "columns": columns}
            | {"height": max(heights), "heights": heights, "links": links}
            | {"height over n + m - 2": max(heights) / (rows + columns - 2)}
            | {"links over four trees'": links / (4 * (fabric.ranks - 1))}
            | {"links used twice": sum(map(len, trees)) - len({edge for tree in trees for edge in tree})}
            | {"steps over H + C - 1": steps_of(fabric, schedule) / (max(heights) + chunks - 1)}
            | {"most trees of all nodes": most_trees(fabric) if fabric.ranks <= 9 else 0}
        )
    rows_, first = Rows(DATA, "fig6"), table[0]
    rows_.add(first, "", first["height"], "3x3 mesh", "height of the trees", "height", own=COUNTED)
    for series, edges in zip(TREES, first["edges"], strict=True):
        rows_.add(first, "links", len(edges), str(series), "3x3")
    rows_.add(
        first, "links", first["links"] - sum(map(len, first["edges"])), "3x3 mesh", "unused after all three trees"
    )
    drawn = table.where(chunks=1, sides=((3, 3), (4, 4)))
    return Outcome(table, rows_, [_drawn(e) for e in drawn], columns=2)


def _drawn(case: Entry) -> Chart:
    """Trees beside each other on a mesh, whose first row is above."""
    rows, columns = case["sides"]
    lines = []
    for number, (series, edges) in enumerate(zip(TREES, case["edges"], strict=True)):
        root = next(iter({parent for _, parent in edges} - {child for child, _ in edges}))
        way, aside = list(walk(edges, root)), 0.09 * (number - 1)
        xs = [1 + at % columns + aside for at in way]
        lines.append(Line(str(series), xs, [rows - at // columns + aside for at in way], marked=True))
    title = f"{rows}x{columns}, third tree: {case['third']}"
    return Chart(title, "column", "row, from below", lines=lines)


def fig7(_quick: bool) -> Steps:
    """Five chunks on a small mesh."""
    yield []
    fabric, chunk, table = Fabric("mesh:3x3"), 36 * KIB, Table()
    every = antiphon.build(fabric, MULTI_TREE.run, "all-reduce", chunk, FREE)
    in_turn, least = steps_of(fabric, every), every.transfers["message_bytes"].max()
    for chunks in range(1, 11):
        three = antiphon.build(fabric, f"{TTO.run}:chunk={chunk}", "all-reduce", chunks * chunk, FREE)
        width = int(three.transfers["message_bytes"].max() // least)
        both = {"MultiTree": in_turn * chunks, "TTO": width * steps_of(fabric, three)}
        table.append({"what": f"{chunks} chunks", "chunks": chunks, "width": width} | both)
    rows, one, five = Rows(DATA, "fig7"), table[0], table[4]
    for key, ours in (
        ("MultiTree, timesteps of a chunk", one["MultiTree"]),
        ("MultiTree, 5 chunks", five["MultiTree"]),
        ("TTO, data of a step over MultiTree's", five["width"]),
        ("TTO, timesteps of a chunk", one["TTO"]),
        ("TTO, 5 chunks", five["TTO"]),
        ("timesteps by which TTO is sooner, 5 chunks", five["MultiTree"] - five["TTO"]),
    ):
        rows.add(one, "", ours, "3x3 mesh", key, key, own=COUNTED)
    lines = [Line(str(series), table.column("chunks"), table.column(str(series))) for series in (MULTI_TREE, TTO)]
    return Outcome(table, rows, [Chart("ReduceScatter, 3x3 mesh", "chunks", "timesteps", lines=lines)])


def table2(_quick: bool) -> Steps:
    """The system."""
    yield []
    array = dict(each.split("=") for each in str(SYSTEM.processor).partition(":")[2].split(","))
    rate = SYSTEM.reduce_rate_gb_per_s
    copied = (
        ("PEs", "", float(array["pes"])),
        ("clock", "GHz", float(array["clock-ghz"])),
        ("rows of a MAC array", "", float(array["rows"])),
        ("columns of a MAC array", "", float(array["cols"])),
        ("precision", "bit", 8 * rate / (float(array["pes"]) * float(array["rows"]))),
        ("bandwidth", "GB/s", SYSTEM.link_rate_gb_per_s),
        ("packet", "B", SYSTEM.packet_payload_bytes),
        ("flit", "B", SYSTEM.flit_bytes),
        ("router clock", "GHz", 1 / SYSTEM.router_clock_ns),
        ("virtual channels", "", SYSTEM.router_virtual_channels),
        ("depth of a buffer", "flits", SYSTEM.router_depth_flits),
    )
    table = Table({"what": what, "ours": ours} for what, _, ours in copied)
    rows = Rows(DATA, "table2")
    for e, (what, unit, ours) in zip(table, copied, strict=True):
        rows.add(e, unit, ours, "Copied", key=what, kind="input")
    # From bandwidth, flit and clock.
    ((_, rate),) = SYSTEM.rounded_rates(Fabric("mesh:8x8"))
    what = "time of a flit"
    rows.add({"what": what}, "ns", SYSTEM.flit_bytes / rate, "Follows", key=what)
    return Outcome(table, rows)
