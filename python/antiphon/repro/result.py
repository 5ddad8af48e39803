"""A reproduction as it came out."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from antiphon.repro.claims import Claim
from antiphon.repro.figure import Outcome, Paper
from antiphon.repro.rows import Row, Summary, by_group, summarize


@dataclass(frozen=True)
class Reproduction:
    """A paper's figures as they came out.

    Attributes:
        quick: only some of the points were run; claims, which are about all of them, are left out.
        outcomes: by the name of the figure, in the paper's order.
        runs: collectives that were needed, each once.
        new_runs: those of them that were not stored before.
        stale_runs: stored runs of another build of Antiphon, which are not used.
        report: path of the page.
    """

    paper: Paper
    quick: bool
    outcomes: dict[str, Outcome]
    claims: list[Claim]
    runs: int
    new_runs: int
    stale_runs: int
    report: str

    @property
    def summaries(self) -> dict[str, list[Summary]]:
        """The rows of every group in short, by figure."""
        return {name: by_group(outcome.rows) for name, outcome in self.outcomes.items()}

    def claims_of(self, figure: str | None = None, *, own: bool = False) -> Counter[str]:
        """Verdicts on the paper's claims, or our ``own``, all or those of a figure; what is fitted has one, too."""
        wanted = (claim for claim in self.claims if claim.own == own and figure in (None, claim.figure))
        return Counter(claim.verdict for claim in wanted)

    @cached_property
    def figures(self) -> dict[str, Summary]:
        """Every figure in short; a published number that several rows are held against counts once, by the first."""
        return {
            name: summarize(
                self.paper.data.figures[name]["title"],
                [row for row in outcome.rows if not self.is_beside(row)],
                "{0.group}, {0.what}",
            )
            for name, outcome in self.outcomes.items()
        }

    @cached_property
    def _first(self) -> dict[str, Row]:
        """The first row of every published number."""
        rows = [row for outcome in self.outcomes.values() for row in outcome.rows if row.published is not None]
        return {row.source: row for row in reversed(rows)}

    def is_beside(self, row: Row) -> bool:
        """Whether a row stands beside another that is held against the same number and counts."""
        return row.published is not None and row.source != "" and self._first[row.source] is not row

    def row_dict(self, row: Row) -> dict[str, Any]:
        """A row as documented in docs/reference/json.md, and as a line of the CSV files."""
        apart = {"reason": row.own.reason if row.own else "", "counts": row.counts and not self.is_beside(row)}
        return {column: apart[column] if column in apart else getattr(row, column) for column in COLUMNS}

    def to_dict(self) -> dict[str, Any]:
        """The reproduction as documented in docs/reference/json.md."""
        figures = [
            {"name": name, "title": self.figures[name].group}
            | {"summary": list(map(asdict, summaries)), "rows": list(map(self.row_dict, self.outcomes[name].rows))}
            for name, summaries in self.summaries.items()
        ]
        return {
            "paper": self.paper.name,
            "title": self.paper.data.texts["title"],
            **{name: getattr(self, name) for name in ("quick", "runs", "new_runs", "stale_runs")},
            "figures": figures,
            "claims": list(map(asdict, self.claims)),
            "report": self.report,
        }


COLUMNS = (
    "group",
    "what",
    "unit",
    "paper",
    "artifact",
    "reference",
    "ours",
    "ratio",
    "tolerance",
    "reason",
    "verdict",
    "counts",
    "note",
)
