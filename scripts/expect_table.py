"""Writes the table of docs/how-to/expect.md: measured times beside what is expected, at a few sizes.

Run by `make tables`; a test sees that all is current.
"""

from __future__ import annotations

import re

from library_table import ROOT, measured

from antiphon._core import format_bytes
from antiphon.library.cluster import Cluster
from antiphon.library.measured import expected

PAGE = ROOT / "docs" / "how-to" / "expect.md"
SIZES = tuple(1 << log for log in (10, 16, 20, 24, 30))
"""Rows, in bytes: the errors of all sizes are in docs/explanation/library.md."""


def table() -> str:
    """A row for each size, a column for each log: measured time in us, and the error in percent of what is expected."""
    cells: dict[int, dict[str, str]] = {}
    names = []
    for (gpu, gpus, source), points in measured().items():
        cluster = Cluster.parse(f"dgx-{gpu}").group(gpus)
        names.append(f"{gpus} {gpu.upper()}, {source}")
        for size, us in points:
            if size not in SIZES:
                continue
            should_us = expected(cluster, "all-reduce", size, "nccl", points[0][1]).time_us
            cells.setdefault(size, {})[names[-1]] = (
                f"{us:,.{0 if us >= 1000 else 1}f} ({100 * (should_us / us - 1):+.0f})"
            )
    head = "| size |" + "".join(f" {name} |" for name in names) + "\n|---|" + "---|" * len(names) + "\n"
    lines = [
        f"| {format_bytes(size)} |" + "".join(f" {row.get(name, '')} |" for name in names)
        for size, row in sorted(cells.items())
    ]
    return head + "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    found = re.compile(r"(?<=<!-- table measured: make tables -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
    return found.sub(lambda _: table(), text, count=1)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
