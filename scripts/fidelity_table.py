"""Writes the table of docs/evidence/fidelity.md: how far cheaper fidelities are from `flit`.

Run by `make tables`; a test runs its first size again.
"""

from __future__ import annotations

import re
from pathlib import Path

import antiphon

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "fidelity.md"
FABRICS = ("mesh:8x8", "switch:8", "bigraph:2x2")
SYSTEM = antiphon.System("tto")
SIZES = ("64KiB", "1MiB", "16MiB")
AGREE = 0.5
"""Percent. Algorithms whose errors are all within it share one row of a fabric."""
WITHIN = f"within {AGREE:g}"
TABLE = re.compile(r"(?<=<!-- table: make tables -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def rows(fabric: str, size: str) -> dict[str, tuple[float, list[float]]]:
    """By algorithm: nanoseconds in flits, and errors of alpha-beta and packet in percent."""
    network = antiphon.Fabric(fabric)
    comparison = antiphon.compare(network, bytes=size, system=SYSTEM, fidelity=antiphon.fidelities(), estimates=False)
    found = {}
    for runs in comparison.ladder:
        flit, packet, alpha_beta = (run.time_ns for run in runs)
        found[runs[0].algorithm] = (flit, [100 * (time / flit - 1) for time in (alpha_beta, packet)])
    return found


def table() -> str:
    """All rows as Markdown."""
    lines = [
        "| fabric | algorithm |" + "".join(f" {size} |" for size in SIZES),
        "|---|---|" + "---|" * len(SIZES),
    ]
    for fabric in FABRICS:
        columns = [rows(fabric, size) for size in SIZES]
        names = sorted(columns[-1], key=lambda name: columns[-1][name][0])
        agreeing = [name for name in names if all(agrees(column[name]) for column in columns)]
        if agreeing:
            lines.append(f"| {fabric} | {', '.join(agreeing)} |" + f" {WITHIN} |" * len(SIZES))
        for name in names:
            if name not in agreeing:
                lines.append(f"| {fabric} | {name} |" + "".join(f" {cell(column[name])} |" for column in columns))
    return "\n".join(lines) + "\n"


def agrees(row: tuple[float, list[float]]) -> bool:
    """Whether both errors are small."""
    return all(abs(error) <= AGREE for error in row[1])


def cell(row: tuple[float, list[float]]) -> str:
    """The errors."""
    return "/".join(f"{round(error, 1) + 0.0:+.1f}" for error in row[1])


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text("utf-8"), count=1), "utf-8")
