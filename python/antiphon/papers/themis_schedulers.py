"""Themis (ISCA 2022): its topologies, and which of our schedulers stands for which of the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.papers.model import Row, Style, published, stated
from antiphon.study import RailsPoint

PAPER = "themis"
MB = 1_000_000
TOPOLOGIES = tuple(dict.fromkeys(row["name"] for row in published(PAPER, "topologies")))
"""The six of Table 2."""
SIZES_MB = (100, 250, 500, 750, 1000)
"""Of Figures 8 and 11."""
CHUNKS = 64

MEAN = 0.015
"""Tolerance of means over many runs."""
SINGLE = 0.05
"""Tolerance of single points, which move by a few per cent when a size does by 1.5, and of what is assumed."""
EXACT = 0.001
"""Tolerance of what is counted."""


@dataclass(frozen=True)
class Series:
    """A scheduler as the paper's figures show it, or ours beside them.

    Attributes:
        name: for the reader, and the key of its style.
        scheduler: what it is here, with ``intra`` its queue policy (None: the scheduler chooses).
        drawn: whether it is in plots; if not, it is in the rows only.
        stands_for: the name of the paper's series, if it has it.
        fixed_delay: whether Themis' loads start at the latency A_K.
        note: what is known about it.
    """

    name: str
    scheduler: str
    intra: str | None
    style: Style
    drawn: bool = True
    stands_for: str = ""
    fixed_delay: bool = False
    note: str = ""

    def run(self, topology: str, size: int, chunks: int = CHUNKS, tables: tuple[str, ...] = ()) -> RailsPoint:
        """An AllReduce of ``size`` bytes."""
        return RailsPoint(topology, size, self.scheduler, self.intra, chunks, self.fixed_delay, tables)


BASELINE = Series("Baseline", "baseline", "fifo", Style("#7f7f7f", "s"), stands_for="Baseline")
FIFO = Series("Themis+FIFO", "themis", "fifo", Style("#56b4e9", "D"), stands_for="Themis+FIFO")
SCF = Series("Themis+SCF", "themis", "scf", Style("#0072b2", "o"), stands_for="Themis+SCF")
SCF_BEFORE = Series(
    "Themis+SCF, size before",
    "themis",
    "scf-before",
    Style("#cc79a7", "v", dashed=True),
    stands_for="Themis+SCF",
    note="A chunk is as small as it is before the stage, as in ASTRA-sim until April 2022. “Themis+SCF” takes the"
    " larger of its sizes before and after. The paper does not say which it used.",
)
FROM_DELAY = "Themis' loads start at the latency A_K, as the paper says; in “Themis+…” at zero, as in ASTRA-sim."
FIFO_DELAY = Series(
    "Themis+FIFO, loads from A_K",
    "themis",
    "fifo",
    Style("#56b4e9", "d", dashed=True),
    drawn=False,
    stands_for="Themis+FIFO",
    fixed_delay=True,
    note=FROM_DELAY,
)
SCF_DELAY = Series(
    "Themis+SCF, loads from A_K",
    "themis",
    "scf",
    Style("#0072b2", "h", dashed=True),
    drawn=False,
    stands_for="Themis+SCF",
    fixed_delay=True,
    note=FROM_DELAY,
)
SEARCH = Series("Search", "search", None, Style("#d55e00", "P"), note="Not in the paper: Antiphon's own scheduler.")

SERIES = (BASELINE, FIFO, SCF, SCF_BEFORE, FIFO_DELAY, SCF_DELAY, SEARCH)
"""In the order of the paper's legends, ours last."""
DRAWN = tuple(series for series in SERIES if series.drawn)

DIMENSIONS = {
    f"dim{number}": Style(colour, marker)
    for number, (colour, marker) in enumerate(
        (("#0072b2", "o"), ("#e69f00", "s"), ("#009e73", "D"), ("#cc79a7", "v")), 1
    )
}
"""How dimensions are drawn, nearest first."""
STYLES = {series.name: series.style for series in SERIES} | DIMENSIONS


def row(
    figure: str,
    group: str,
    what: str,
    unit: str,
    ours: float,
    key: str = "",
    tolerance: float = MEAN,
    note: str = "",
) -> Row:
    """A row beside what the paper states, by ``key``, and what the reference model gives, by group and what."""
    paper = stated(PAPER, figure).get(key)
    reference = stated(PAPER, figure, "reference").get(f"{group}: {what}")
    return Row(group, what, unit, ours, paper, None, tolerance, note, reference)


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size // MB} MB"
