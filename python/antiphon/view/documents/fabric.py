"""Fabrics: what their switches do; a configuration, and a map of its bypasses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from antiphon._core import Fabric, format_bytes
from antiphon.results import Configured, rows_of
from antiphon.view.document import Document, Verbatim, dim, document
from antiphon.view.text import format_time

WIDEST = 20
"""Columns of chiplets up to which a map is drawn."""
PLAIN = (
    "Switches only forward here; ,switches=on-read (NVLS) or ,switches=in-tree (SHARP) makes them add "
    "(docs/reference/fabric.md)."
)
ADDING = "Switches add and multicast here ({}); ,switches=plain turns that off (docs/reference/fabric.md)."

ENDS = {
    "no-better": "nothing near is better",
    "rates": "nothing near that lowers the bound by rates is faster; what does not was not tried",
    "greedy": "segments for the shortest messages first; --method search may find better",
    "bound": "the bound is reached",
    "steps": "all --steps are used; more may find a better one",
}


def noting_switches(show: Callable[[], Document], *fabrics: Fabric) -> Callable[[], Document]:
    """What shows times or bounds, and says what switches of the fabrics do."""

    def noted() -> Document:
        adding = sorted({how for fabric in fabrics for how in fabric.nodes["reduces"].tolist() if how})
        if adding:
            return show().with_(dim(ADDING.format(", ".join(adding))))
        return show().with_(any(map(_has_switches, fabrics)) and dim(PLAIN))

    return noted


def _has_switches(fabric: Fabric) -> bool:
    """Whether there are nodes that never hold a rank: ranks have numbers for names, left out of a group or not."""
    nodes = zip(fabric.nodes["rank"].tolist(), fabric.nodes["name"].tolist(), strict=True)
    return any(rank < 0 and not name.isdigit() for rank, name in nodes)


def configured_document(found: Configured) -> Document:
    """What was found, and how good it is."""
    size = format_bytes(found.bytes)
    ended = ENDS.get(found.ended, found.ended)
    simulated = f"{found.simulated} schedule{'s' if found.simulated > 1 else ''} simulated"
    if found.changes is not None:
        simulated += f", {found.changes or 'none'} of them with changes between phases"
    drawing = fabric_map(Fabric(found.fabric))
    least = f"No configuration or algorithm takes less than {format_time(found.bound_ns)} ({found.binding})"
    return document(
        f"{found.algorithm}, {found.collective} of {size}: {format_time(found.time_ns)}{_gain(found)}",
        found.given_ns is None and "As it was given none of the algorithms applies",
        f"{least}: {found.efficiency:.1%} of what is possible at most",
        dim(f"System {found.system}, fidelity {found.fidelity}; {simulated}; {ended}"),
        drawing and Verbatim(drawing, apart=True),
        Verbatim(found.fabric, apart=True),
    )


def _gain(found: Configured) -> str:
    if found.given_ns is None or found.speedup is None:
        return ""
    if found.given_ns == found.time_ns:
        return ", nothing faster was found than the fabric as it was given"
    return f", {found.speedup:.2f} times as fast as before ({format_time(found.given_ns)})"


def fabric_map(fabric: Fabric) -> str:
    """The routers of a fabric that can be configured, what joins neighbours, and longer bypasses by row and column, for
    each of its configurations; nothing for other fabrics and wide ones.

    >>> print(fabric_map(Fabric("aries:2x3,x0=0-2,x1=0>1,off=4-5")))
    o---o---o   x0: 0-2
    |   |   |
    o==>o   o
    (--- | mesh link, === ‖ and a bypass, ~~~ : only a bypass; > < v ^ more that way; x, y: longer bypasses)
    """
    nodes, ports = fabric.nodes, rows_of(fabric.ports)
    if not ports or nodes["coord_1"].max() >= WIDEST:
        return ""
    places = [(int(row), int(column)) for row, column in zip(nodes["coord_0"], nodes["coord_1"], strict=True)]
    count = max(row["configuration"] for row in ports) + 1
    parts = []
    for number in range(count):
        lines = _drawn(places, [row for row in ports if row["configuration"] == number])
        parts += [f"Configuration {number}:"] * (count > 1) + lines
    return "\n".join([*parts, LEGEND])


LEGEND = "(--- | mesh link, === ‖ and a bypass, ~~~ : only a bypass; > < v ^ more that way; x, y: longer bypasses)"
SIDES = {"+x": (0, 1), "-x": (0, -1), "+y": (1, 0), "-y": (-1, 0)}


def _drawn(places: list[tuple[int, int]], ports: list[dict[str, Any]]) -> list[str]:
    """One configuration."""
    near: Counter[tuple[tuple[int, int], tuple[int, int], bool]] = Counter()
    far: dict[str, list[tuple[int, int]]] = {}
    for port in ports:
        row, column = places[port["router"]]
        attached = port["output"]
        if attached == "mesh":
            down, right = SIDES[port["port"]]
            near[(row, column), (row + down, column + right), False] += 1
        elif attached:
            line, segment = attached.split(" ")
            start, end = (int(each) for each in segment.split(">"))
            if abs(start - end) > 1:
                far.setdefault(line, []).append((start, end))
            else:
                other = (row, end) if line.startswith("x") else (end, column)
                near[(row, column), other, True] += 1

    def joint(a: tuple[int, int], b: tuple[int, int], marks: str, arrows: str) -> tuple[str, str]:
        """The mark of what joins neighbours, and an arrow where there is more one way."""
        mesh, bypass = (near[a, b, kind] + near[b, a, kind] > 0 for kind in (False, True))
        there, back = (near[start, end, False] + near[start, end, True] for start, end in ((a, b), (b, a)))
        return marks[mesh + 2 * bypass], arrows[(there > back) + 2 * (back > there)].strip()

    rows, columns = (max(place[axis] for place in places) + 1 for axis in (0, 1))
    lines = []
    for row in range(rows):
        text = "o"
        for column in range(columns - 1):
            mark, arrow = joint((row, column), (row, column + 1), " -~=", " ><")
            text += {"": mark * 3, ">": mark * 2 + ">", "<": "<" + mark * 2}[arrow] + "o"
        lines.append(text + (f"   x{row}: {_listed(far[f'x{row}'])}" if f"x{row}" in far else ""))
        if row + 1 < rows:
            below = (joint((row, column), (row + 1, column), " |:‖", " v^") for column in range(columns))
            lines.append("".join(mark + arrow.ljust(3) for mark, arrow in below).rstrip())
    return lines + [f"y{column}: {_listed(far[f'y{column}'])}" for column in range(columns) if f"y{column}" in far]


def _listed(pairs: list[tuple[int, int]]) -> str:
    """Segments as in a specification."""
    both = [(a, b) for a, b in pairs if (b, a) in pairs and a < b]
    one = [(a, b) for a, b in pairs if (b, a) not in pairs]
    return "+".join([f"{a}-{b}" for a, b in both] + [f"{a}>{b}" for a, b in one])
