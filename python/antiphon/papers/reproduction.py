"""The work of a reproduction: runs, rows, claims; and the folder that it leaves."""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.papers.model import Claim, Experiment, Outcome, Paper, Row, Summary, summarize, summarize_all
from antiphon.papers.page import render
from antiphon.papers.plots import draw, require
from antiphon.study import Job, Record, Store

Progress = Callable[[str, float], object]
"""Called with what is being done and the share of it that is done, 0 to 1."""


@dataclass(frozen=True)
class Reproduction:
    """A paper's experiments as they came out.

    Attributes:
        quick: only some of the points were run; claims, which are about all of them, are left out.
        outcomes: by the name of the experiment, in the paper's order.
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
    def experiments(self) -> list[Experiment]:
        """The experiments that were done."""
        return [experiment for experiment in self.paper.experiments if experiment.name in self.outcomes]

    @property
    def summaries(self) -> dict[str, list[Summary]]:
        """The rows in short, by experiment."""
        return {name: summarize(outcome.rows) for name, outcome in self.outcomes.items()}

    @property
    def figures(self) -> dict[str, Summary]:
        """All rows of every figure in short."""
        return {
            one.name: summarize_all(
                one.title, [replace(row, what=f"{row.group}, {row.what}") for row in self.outcomes[one.name].rows]
            )
            for one in self.experiments
        }

    def to_dict(self) -> dict[str, Any]:
        """The reproduction as documented in docs/json.md."""
        summaries = self.summaries
        return {
            "paper": self.paper.name,
            "title": self.paper.title,
            "quick": self.quick,
            "runs": self.runs,
            "new_runs": self.new_runs,
            "stale_runs": self.stale_runs,
            "figures": [
                {
                    "name": experiment.name,
                    "title": experiment.title,
                    "summary": [asdict(summary) for summary in summaries[experiment.name]],
                    "rows": [row_dict(row) for row in self.outcomes[experiment.name].rows],
                }
                for experiment in self.experiments
            ],
            "claims": [asdict(claim) for claim in self.claims],
            "report": self.report,
        }


def row_dict(row: Row) -> dict[str, Any]:
    """A row as documented in docs/json.md, and as a line of the CSV files."""
    return {
        "group": row.group,
        "what": row.what,
        "unit": row.unit,
        "paper": row.paper,
        "artifact": row.artifact,
        "reference": row.reference,
        "ours": row.ours,
        "ratio": row.ratio,
        "tolerance": row.tolerance,
        "verdict": row.verdict,
        "note": row.note,
    }


def choose(papers: Mapping[str, Paper], target: str, figures: Sequence[str] = ()) -> tuple[Paper, list[Experiment]]:
    """What ``PAPER[/FIGURE]`` and further figures mean; no figure means all.

    Raises:
        AntiphonError: ``unknown-name``, naming the nearest.
    """
    name, slash, figure = target.partition("/")
    paper = papers[_known("paper", name, papers)]
    names = [figure, *figures] if slash else list(figures)
    known = {experiment.name: experiment for experiment in paper.experiments}
    wanted = {_known(f"figure of {name}", one, known) for one in names}
    return paper, [one for one in paper.experiments if one.name in wanted or not names]


def _known(kind: str, name: str, known: Mapping[str, object]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    raise AntiphonError(f"no {kind} '{name[:40]}'{hint}; known: {', '.join(known)}", "unknown-name")


def reproduce(
    paper: Paper,
    experiments: Sequence[Experiment],
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Runs what is not stored in the folder yet, and writes into its subfolder ``PAPER``, or
    ``PAPER-quick``, ``report.html`` (of some experiments ``report-NAMES.html``), and for every
    experiment its rows as CSV and its plot, if it has one, as SVG.

    Raises:
        AntiphonError: ``bad-file`` if the folder cannot be used, ``missing-extra`` without matplotlib.
    """
    require()
    place = Path(folder) / (f"{paper.name}-quick" if quick else paper.name)
    whole = len(experiments) == len(paper.experiments)
    page = place / ("report.html" if whole else f"report-{'-'.join(one.name for one in experiments)}.html")
    with Store(folder) as store, written_whole(_made(place) / page.name, ".html") as report:
        points = list(dict.fromkeys(point for one in experiments for point in one.points(quick)))
        title = f"{paper.name}, {len(points):,} runs"
        done = None if progress is None else lambda count, all: progress(title, count / max(all, 1))
        new_runs = store.ensure(points, jobs, done)
        results = {point: _of(store, point) for point in points}
        outcomes = {one.name: one.evaluate(results, quick) for one in experiments}
        claims = [] if quick else paper.claims(outcomes)
        reproduction = Reproduction(
            paper, quick, outcomes, claims, len(points), new_runs, store.of_other_builds, str(page)
        )
        plots = {}
        for count, one in enumerate(experiments):
            if progress is not None:
                progress("plots", count / len(experiments))
            if outcomes[one.name].charts:
                plots[one.name] = draw(outcomes[one.name].charts, paper.styles, one.columns)
                with written_whole(place / f"{one.name}.svg", ".svg") as file:
                    file.write(plots[one.name])
            _write_csv(place / f"{one.name}.csv", [row_dict(row) for row in outcomes[one.name].rows])
        if claims and whole:
            _write_csv(place / "claims.csv", [asdict(claim) for claim in claims])
        report.write(render(reproduction, plots))
    return reproduction


def _made(folder: Path) -> Path:
    """A folder, made if there is none."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise AntiphonError(f"{folder}: cannot be made: {error.strerror or error}", "bad-file") from None
    return folder


def _of(store: Store, point: Job) -> Record:
    record = store[point]
    if "refused" in record:
        raise AntiphonError(record["refused"]["reason"], record["refused"]["code"])
    return record


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with written_whole(path, ".csv") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
