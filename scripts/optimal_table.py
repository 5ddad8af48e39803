"""Writes the table of docs/explanation/optimal.md: shares of the lower bound that `optimal` and the best other
algorithm reach.

Run by `make tables`; a test runs a row of it again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import antiphon

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "optimal.md"
FABRICS = (
    "mi250:1:raw",
    "dgx-a100:2:raw",
    "dgx-h100:4:raw",
    "dgx1v",
    "fc:8",
    "mesh:8x8",
    "torus:4x4x4",
    "mesh:8x8,drop=3-4,dead=40",
)
COLLECTIVES = ("all-gather", "all-reduce", "broadcast", "all-to-all")
TABLE = re.compile(r"(?<=<!-- table: make tables -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def cell(fabric: str, collective: str) -> str:
    """Percent of the bound by `optimal`, then by the best other algorithm, and its name."""
    runs = antiphon.compare(
        antiphon.Fabric(fabric), collective=collective, bytes="1GiB", system="ideal", estimates=False
    )
    own = next(run for run in runs if run.algorithm == "optimal")
    other = max((run for run in runs if run.algorithm != "optimal"), key=lambda run: run.efficiency)
    return f"{100 * own.efficiency:.1f}/{100 * other.efficiency:.1f} {other.algorithm}"


def row(fabric: str) -> str:
    """A fabric's row as Markdown."""
    return f"| `{fabric}` |" + "".join(f" {cell(fabric, collective)} |" for collective in COLLECTIVES)


def table() -> str:
    """All rows as Markdown."""
    lines = [f"| fabric | {' | '.join(COLLECTIVES)} |", "|---|" + "---|" * len(COLLECTIVES)]
    for fabric in FABRICS:
        lines.append(row(fabric))
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = table()
    PAGE.write_text(TABLE.sub(lambda _: text, PAGE.read_text("utf-8"), count=1), "utf-8")
