"""The pages of a schedule: what it does, as ``show`` and ``verify`` found it, or the counter-example drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from antiphon._core import Fabric, Schedule, format_bytes
from antiphon.collective.matrix import size_text
from antiphon.errors import AntiphonError
from antiphon.results import Proof, rows_of
from antiphon.view.document import Document, Table, document, more
from antiphon.view.drawing import Drawing, draw
from antiphon.view.drawing.picture import MOST_PATTERNS as MOST_IN_FILES
from antiphon.view.drawing.trees import Pattern, classes_of, patterns
from antiphon.view.pages.page import page_template
from antiphon.view.pages.player import steps_of
from antiphon.view.pages.plots import HEIGHT, WIDTH, Chart, line, linear
from antiphon.view.pages.sheet import Picture, Section, sheet
from antiphon.view.text import certified

LARGEST_PICTURES = 300_000
"""Characters of all pictures of trees that are on the page."""
MOST_PATTERNS = 4
"""Trees and rings that are drawn on the page."""
MOST_STEPS = 2000
"""Of a chart; timetables have more, and most begin nothing."""
MOST_ROWS = 200
"""Of a table."""
NAMED = re.compile(r"\b(transfer|rank|lane|link|node)s? (\d+(?:(?:, | -> )\d+)*)")
"""What a counter-example names, and its numbers."""


def render(fabric: Fabric, schedule: Schedule, proof: Proof, shown: Document) -> str:
    """The page of a proven schedule, as text; ``shown`` is what people see of it on a terminal."""
    stats = schedule.stats(fabric)
    carried = np.asarray(stats.links["bytes"], dtype=np.float64)
    drawing = draw(fabric, excluded=schedule.excluded)
    who = "every rank"
    if schedule.excluded:
        who += f", except {', '.join(map(str, schedule.excluded[:8]))}" + (
            ", ...," if len(schedule.excluded) > 8 else ","
        )
    who += " ends with the right bytes"
    if proof.complete:
        verdict = Markup("<strong>Proven:</strong> {}").format(who)
    else:
        verdict = Markup("<strong>Incomplete:</strong> {}").format(proof.gaps)
    if proof.share_of_optimum is not None:
        verdict += f", and it is at {certified(proof.share_of_optimum)}"
    return sheet(
        f"{schedule.algorithm} on {fabric.name}",
        f"{schedule.collective} of {size_text(schedule.bytes, schedule.matrix_bytes)}",
        verdict + ".",
        [
            *([] if drawing.heat else _trees(fabric, schedule, drawing)),
            *_steps(schedule, stats.phases),
            Section("Figures", shown=shown),
            Section("Links", "What each carries, the most first.", shown=_links(fabric, carried)),
        ],
        [
            (f"{stats.messages:,}", f"messages, {stats.transfers:,} transfers of {proof.lanes:,} lanes"),
            (f"{stats.steps:,}", "steps"),
            (format_bytes(max(int(carried.max(initial=0)), 1)), "over the busiest link"),
            (f"{int((carried == 0).sum()):,} of {len(carried):,}", "links carry nothing"),
        ],
        wrong=not proof.complete,
        player=steps_of(fabric, schedule),
        picture=carried_picture(fabric, drawing, carried, "schedule"),
    )


def carried_picture(fabric: Fabric, drawing: Drawing, carried: NDArray[np.float64], name: str) -> Picture:
    """The fabric, links coloured by their bytes; on a heat map nodes, by the mean of the links that leave them."""
    label = "The fabric, links coloured by the bytes that they carry"
    if drawing.heat:
        leaving = np.asarray(fabric.links["from"])
        count = len(drawing.nodes)
        means = np.bincount(leaving, carried, count) / np.maximum(np.bincount(leaving, minlength=count), 1)
        text = "Each cell is a node: the darker, the more bytes the links that leave it carry, on average."
        return Picture(drawing, "What links carry", text, label, name, node_classes=_levels(means))
    text = "The darker a link, the more bytes it carries; the darkest carries the most."
    titles = [f"{each.name}: {size:,.0f} bytes" for each, size in zip(drawing.links, carried, strict=True)]
    return Picture(drawing, "What links carry", text, label, name, _levels(carried), titles)


def _levels(values: NDArray[np.float64]) -> list[str]:
    """Classes of the colour scale, the largest of the values at its end."""
    most = float(values.max(initial=0.0)) or 1.0
    return [f"u{level}" for level in np.ceil(10 * values / most).astype(int)]


def render_fabric(fabric: Fabric) -> str:
    """The page of a fabric alone, as text."""
    rows = [(str(place), row["shape"], f"{row['size']:,}") for place, row in enumerate(rows_of(fabric.dimensions), 1)]
    about = (
        f"{fabric.ranks:,} ranks · {len(fabric.nodes['rank']):,} nodes · {len(fabric.links['from']):,} directed links"
    )
    drawn = Picture(draw(fabric), "Nodes and links", "", f"The fabric {fabric.name}", "fabric")
    sections = [Section("Dimensions", shown=Document([Table(("Dimension", "Shape", "Size:"), rows)]))] if rows else []
    return sheet(fabric.name, about, "", sections, picture=drawn)


def _trees(fabric: Fabric, schedule: Schedule, drawing: Drawing) -> list[Section]:
    """The trees and rings that carry the most data, a picture each."""
    found = patterns(fabric, schedule)
    pictures, left = [], LARGEST_PICTURES
    for number, each in enumerate(found[:MOST_PATTERNS]):
        roots = ["root" if node.rank in each.roots else "" for node in drawing.nodes]
        svg = drawing.svg(each.text, classes_of(each, len(drawing.links), number % 7), node_classes=roots)
        left -= len(svg)
        if left < 0:
            break
        pictures.append((each.text, svg))
    if not pictures:
        return []
    text = _arrows(found[: len(pictures)])
    if len(found) > len(pictures):
        text += (
            f" The {len(pictures)} with the most data are drawn; {len(found) - len(pictures):,} more are not:"
            f" --picture FILE.svg draws up to {MOST_IN_FILES}."
        )
    body = Markup(page_template("trees.html").render(pictures=pictures))
    return [Section("Trees and rings", text, body=body)]


def _arrows(found: Sequence[Pattern]) -> str:
    """What the arrows of trees and rings mean."""
    sentences = []
    if any(each.adds for each in found):
        back = ", and later copies of the result" if any(each.adds & each.copies for each in found) else ""
        sentences.append(f"Solid arrows carry data that is added on its way{back}.")
    if any(each.copies - each.adds for each in found):
        sentences.append("Dashed arrows carry copies.")
    if any(each.roots for each in found):
        sentences.append("Roots have a thick edge.")
    return " ".join(sentences)


def _steps(schedule: Schedule, phases: Sequence[tuple[str, int]]) -> list[Section]:
    """How many transfers each step has, by phase."""
    if not phases or sum(steps for _, steps in phases) > MOST_STEPS:
        return []
    table = schedule.transfers
    starts = np.cumsum([0, *(steps for _, steps in phases)])
    counts = [
        np.bincount(table["step"][table["phase"] == place], minlength=steps) for place, (_, steps) in enumerate(phases)
    ]
    x = linear("step", [float(starts[-1])], WIDTH)
    y = linear("transfers", [float(each.max(initial=1)) for each in counts], HEIGHT * 0.6)
    lines = [
        line(
            place,
            name,
            x,
            y,
            [
                (float(start + at), float(many), f"step {start + at}, {name}: {many:,} transfers")
                for at, many in enumerate(each)
            ],
        )
        for place, ((name, _), start, each) in enumerate(zip(phases, starts, counts, strict=False))
    ]
    return [Section("Transfers of each step", charts=[Chart("Transfers of each step", x, y, lines)])]


def _links(fabric: Fabric, carried: NDArray[np.float64]) -> Document:
    names, links = fabric.nodes["name"], fabric.links
    order = np.argsort(-carried, kind="stable")[:MOST_ROWS]
    rows = [(str(at), f"{names[links['from'][at]]} → {names[links['to'][at]]}", f"{carried[at]:,.0f}") for at in order]
    return document(Table(("Link:", "Way", "Bytes:"), rows), more(len(carried), MOST_ROWS))


# --- counter-examples ---------------------------------------------------------------------------


def named(message: str) -> dict[str, list[int]]:
    """What a counter-example names, each kind in the order of the sentence.

    >>> named("deadlock: transfer 3 -> 7 -> 3; each waits for the next, from transfer 3 (rank 5 to 1, step 2)")
    {'transfer': [3, 7], 'rank': [5], 'lane': [], 'link': [], 'node': []}
    """
    found: dict[str, dict[int, None]] = {kind: {} for kind in ("transfer", "rank", "lane", "link", "node")}
    for kind, numbers in NAMED.findall(message):
        found[kind] |= dict.fromkeys(int(number) for number in re.findall(r"\d+", numbers))
    return {kind: list(numbers) for kind, numbers in found.items()}


def render_wrong(fabric: Fabric, schedule: Schedule, message: str) -> str:
    """The page of a schedule with a counter-example, as text: the fabric with what the sentence names, and the
    transfers."""
    drawn, sections = _wrong(fabric, schedule, message)
    return sheet(
        f"{schedule.algorithm} on {fabric.name} is wrong",
        f"{schedule.collective} of {size_text(schedule.bytes, schedule.matrix_bytes)}"
        " · the first counter-example of the proof",
        Markup("<strong>Not proven:</strong> {}.").format(message),
        sections,
        wrong=True,
        picture=drawn,
    )


def wrong_sections(fabric: Fabric, schedule: Schedule, message: str) -> str:
    """The same as elements, sections of another page."""
    drawn, sections = _wrong(fabric, schedule, message)
    drawn = replace(drawn, title=f"{schedule.algorithm} is wrong", text=f"{message}. {drawn.text}")
    return page_template("wrong.html").render(picture=drawn, sections=sections)


def _wrong(fabric: Fabric, schedule: Schedule, message: str) -> tuple[Picture, list[Section]]:
    """The fabric with what a counter-example names, and the transfers."""
    found = named(message)
    transfers = [each for each in found["transfer"] if each < len(schedule.transfers["from"])]
    of_lane = _of_lanes(schedule, found["lane"])
    drawing = draw(fabric, excluded=schedule.excluded)
    hot = _links_of(schedule, transfers) | set(found["link"])
    beside = _links_of(schedule, of_lane) - hot
    ranks = set(found["rank"]) | {int(schedule.transfers[end][each]) for each in transfers for end in ("from", "to")}
    nodes = {int(np.flatnonzero(fabric.nodes["rank"] == rank)[0]) for rank in ranks if rank in fabric.nodes["rank"]}
    nodes |= set(found["node"])
    lanes = ", ".join(map(str, found["lane"]))
    signs = [("hot", "way of a transfer that the counter-example names")] if hot else []
    signs += [("t0", f"way of another transfer of lane {lanes}")] if beside else []
    sections = []
    if transfers:
        why = "In the order of the sentence." + (" Each waits for the next." if "deadlock" in message else "")
        sections.append(Section("The transfers that it names", why, shown=_transfers(schedule, fabric, transfers)))
    if of_lane:
        shown = _transfers(schedule, fabric, of_lane)
        sections.append(Section(f"All transfers of lane {lanes}", "In the order of the schedule.", shown=shown))
    drawn = Picture(
        drawing,
        "Where it goes wrong",
        "Ranks and links that the sentence names are red.",
        "The fabric with the counter-example: " + message,
        "counter-example",
        ["hot" if at in hot else "t0" if at in beside else "" for at in range(len(drawing.links))],
        None,
        ["hot" if at in nodes else "" for at in range(len(drawing.nodes))],
        signs,
    )
    return drawn, sections


def _of_lanes(schedule: Schedule, lanes: Sequence[int]) -> list[int]:
    """The transfers of lanes."""
    payloads = schedule.payloads
    found: list[int] = payloads["transfer"][np.isin(payloads["lane"], lanes)].tolist()
    return found


def _links_of(schedule: Schedule, transfers: Iterable[int]) -> set[int]:
    """The links of transfers."""
    routes = schedule.routes
    return set(routes["link"][np.isin(routes["transfer"], list(transfers))].tolist())


def _transfers(schedule: Schedule, fabric: Fabric, which: Sequence[int]) -> Document:
    """What transfers do, and what each waits for."""
    table, after = schedule.transfers, schedule.dependencies
    try:
        phases = [name for name, _ in schedule.stats(fabric).phases]
    except AntiphonError:  # where what is wrong keeps it from being counted
        phases = []
    rows = []
    for each in which[:MOST_ROWS]:
        phase = int(table["phase"][each])
        waits = after["after"][after["transfer"] == each].tolist()
        rows.append(
            (
                str(each),
                phases[phase] if phase < len(phases) else str(phase),
                str(table["step"][each]),
                f"{table['from'][each]} → {table['to'][each]}",
                "adds" if table["reduces"][each] else "copies",
                f"{table['message_bytes'][each]:,}",
                ", ".join(map(str, waits[:8])) + (", ..." if len(waits) > 8 else ""),
            )
        )
    heads = ("Transfer:", "Phase", "Step:", "Rank to rank", "Does", "Bytes:", "Waits for transfer")
    return document(Table(heads, rows), more(len(which), MOST_ROWS, "the schedule"))
