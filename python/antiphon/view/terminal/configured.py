"""A configuration for people: what it does, and a map of its bypasses."""

from __future__ import annotations

from antiphon._core import Fabric, format_bytes
from antiphon.results import Configured
from antiphon.view.terminal.console import open_console
from antiphon.view.text import format_time

WIDEST = 20
"""Columns of chiplets up to which a map is drawn."""

ENDS = {
    "no-better": "nothing near is better",
    "greedy": "segments for the shortest messages first; --method search may find better",
    "bound": "the bound is reached",
    "steps": "all --steps are used; more may find a better one",
}


def print_configured(found: Configured) -> None:
    """What was found, and how good it is."""
    console = open_console()
    faster = "" if found.speedup is None else f", {found.speedup:.2f} times as fast as before"
    console.print(
        f"{found.algorithm}, {found.collective} of {format_bytes(found.bytes)}: {format_time(found.time_ns)}{faster}"
    )
    console.print(
        f"No configuration or algorithm takes less than {format_time(found.bound_ns)} ({found.binding}): "
        f"{found.efficiency:.1%} of what is possible at most"
    )
    ended = ENDS.get(found.ended, found.ended)
    console.print(f"{found.simulated} schedules simulated; {ended}", style="dim")
    drawing = fabric_map(Fabric(found.fabric))
    if drawing:
        console.print()
        console.print(drawing, soft_wrap=True, highlight=False)
    console.print()
    console.print(found.fabric, soft_wrap=True, highlight=False)


def fabric_map(fabric: Fabric) -> str:
    """The routers of a fabric that can be configured, what joins neighbours, and longer bypasses by row and column;
    nothing for other fabrics and wide ones.

    >>> print(fabric_map(Fabric("aries:2x3,x0=0-2,x1=0-1,off=4-5")))
    o---o---o   x0: 0-2
    |   |   |
    o===o   o
    (--- | mesh link, === ‖ and a bypass, ~~~ : only a bypass; longer bypasses by row, x, and column, y)
    """
    nodes, links = fabric.nodes, fabric.links
    if fabric.configuration is None or nodes["coord_1"].max() >= WIDEST:
        return ""
    places = [(int(row), int(column)) for row, column in zip(nodes["coord_0"], nodes["coord_1"], strict=True)]
    near: dict[frozenset[tuple[int, int]], set[bool]] = {}
    far: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for start, end, dimension in zip(links["from"], links["to"], links["dimension"], strict=True):
        (row, column), (other_row, other_column) = places[start], places[end]
        bypass = str(dimension).endswith("-bypass")
        if abs(row - other_row) + abs(column - other_column) == 1:
            near.setdefault(frozenset((places[start], places[end])), set()).add(bypass)
        elif row == other_row:
            far.setdefault(("x", row), []).append((column, other_column))
        else:
            far.setdefault(("y", column), []).append((row, other_row))

    def joint(a: tuple[int, int], b: tuple[int, int], marks: str) -> str:
        kinds = near.get(frozenset((a, b)), set())
        return marks[len(kinds) if True not in kinds or len(kinds) > 1 else 3]

    rows, columns = (max(place[axis] for place in places) + 1 for axis in (0, 1))
    lines = []
    for row in range(rows):
        text = "o" + "".join(joint((row, column), (row, column + 1), " -=~") * 3 + "o" for column in range(columns - 1))
        lines.append(text + (f"   x{row}: {_listed(far['x', row])}" if ("x", row) in far else ""))
        if row + 1 < rows:
            below = (joint((row, column), (row + 1, column), " |‖:") for column in range(columns))
            lines.append("   ".join(below).rstrip())
    lines += [f"y{column}: {_listed(far['y', column])}" for column in range(columns) if ("y", column) in far]
    legend = "(--- | mesh link, === ‖ and a bypass, ~~~ : only a bypass; longer bypasses by row, x, and column, y)"
    return "\n".join([*lines, legend])


def _listed(pairs: list[tuple[int, int]]) -> str:
    """Segments as in a specification."""
    both = [(a, b) for a, b in pairs if (b, a) in pairs and a < b]
    one = [(a, b) for a, b in pairs if (b, a) not in pairs]
    return "+".join([f"{a}-{b}" for a, b in both] + [f"{a}>{b}" for a, b in one])
