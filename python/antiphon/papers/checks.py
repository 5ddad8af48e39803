"""How a paper's claims are held against our numbers: ``data/PAPER/claims.csv`` has the sentences, by ``id``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from antiphon.papers.model import Claim, Outcome, Verdict, published

CLOSE = 0.05
"""A number, or both ends of a range, holds within this share."""


@dataclass(frozen=True)
class Finding:
    """What our numbers say to a claim."""

    ours: str
    verdict: Verdict
    comment: str = ""


Check = Callable[[dict[str, str], Mapping[str, Outcome]], Finding]
"""From the row of a claim, and the outcomes by experiment."""
Checks = Mapping[str, tuple[tuple[str, ...], Check]]
"""Of every claim, by its ``id``, the experiments it needs and how it is checked."""


def checked(paper: str, checks: Checks, outcomes: Mapping[str, Outcome]) -> list[Claim]:
    """All claims whose experiments are among the outcomes."""
    found = []
    for row in published(paper, "claims"):
        needs, check = checks[row["id"]]
        if all(name in outcomes for name in needs):
            finding = check(row, outcomes)
            texts = (row["where"], row["claim"], row["paper"], row["artifact"])
            found.append(Claim(*texts, finding.ours, finding.verdict, finding.comment))
    return found


def close(ours: float, paper: float) -> bool:
    """Whether a number holds."""
    return abs(ours / paper - 1) <= CLOSE


def number(row: dict[str, str], value: float, unit: str, comment: str = "") -> Finding:
    """A single number against the paper's."""
    text = f"{value:.2f}×" if unit == "×" else f"{value:.1f} {unit}"
    claimed = float(row["low"])
    if close(value, claimed):
        return Finding(text, "holds", comment)
    way = "More" if value > claimed else "Less"
    return Finding(text, "does not hold", f"{way} than claimed. {comment}".strip())


def spread(row: dict[str, str], values: Iterable[float], comment: str = "") -> Finding:
    """A range of speedups against the paper's, end by end."""
    values = list(values)
    low, high = min(values), max(values)
    ends = [close(low, float(row["low"])), close(high, float(row["high"]))]
    verdict: Verdict = "holds" if all(ends) else "holds in part" if any(ends) else "does not hold"
    return Finding(f"{low:.2f}–{high:.2f}×", verdict, comment)
