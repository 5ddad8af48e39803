"""The work of a reproduction: runs, tables, claims; and the folder that it leaves."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.flat import write_csv
from antiphon.plot import require
from antiphon.repro.charts import draw
from antiphon.repro.claims import judge_all
from antiphon.repro.figure import Figure, Paper
from antiphon.repro.page import render
from antiphon.repro.result import Reproduction
from antiphon.studies import Job, Record, Store

Progress = Callable[[str, float], object]
"""Called with what is being done and the share of it that is done, 0 to 1."""


def choose(papers: Mapping[str, Paper], target: str, figures: Sequence[str] = ()) -> tuple[Paper, list[Figure]]:
    """What ``PAPER[/FIGURE]`` and further figures mean; no figure means all.

    Raises:
        AntiphonError: ``unknown-name``, naming the nearest.
    """
    name, slash, figure = target.partition("/")
    paper = papers[_known("paper", name, papers)]
    names = [figure, *figures] if slash else list(figures)
    known = {figure.name: figure for figure in paper.figures}
    wanted = {_known(f"figure of {name}", one, known) for one in names}
    return paper, [one for one in paper.figures if one.name in wanted or not names]


def _known(kind: str, name: str, known: Mapping[str, object]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    raise AntiphonError(f"no {kind} '{name[:40]}'{hint}; known: {', '.join(known)}", "unknown-name")


def reproduce(
    paper: Paper,
    figures: Sequence[Figure],
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Runs what is not stored in the folder yet, and writes into its subfolder ``PAPER``, or ``PAPER-quick``,
    ``report.html`` (of some figures ``report-NAMES.html``), and for every figure its rows as CSV and its plot, if it
    has one, as SVG.

    Raises:
        AntiphonError: ``bad-file`` if the folder cannot be used, ``missing-extra`` without matplotlib.
    """
    require()
    place = Path(folder) / (f"{paper.name}-quick" if quick else paper.name)
    whole = len(figures) == len(paper.figures)
    page = place / ("report.html" if whole else f"report-{'-'.join(one.name for one in figures)}.html")
    told = progress or (lambda _what, _share: None)
    with Store(folder) as store, written_whole(_made(place) / page.name, ".html") as report:
        points = list(dict.fromkeys(point for one in figures for point in one.points(quick)))
        title = f"{paper.name}, {len(points):,} runs"
        new_runs = store.ensure(points, jobs, lambda count, all: told(title, count / max(all, 1)))
        results = {point: _of(store, point) for point in points}
        outcomes = {one.name: one.evaluate(results, quick) for one in figures}
        tables = {name: outcome.table for name, outcome in outcomes.items()}
        claims = [] if quick else judge_all(paper.data, paper.checks, tables)
        done = Reproduction(paper, quick, outcomes, claims, len(points), new_runs, store.of_other_builds, str(page))
        plots = {}
        for count, (name, outcome) in enumerate(outcomes.items()):
            told("plots", count / len(figures))
            if outcome.charts:
                plots[name] = draw(outcome.charts, paper.data.series, outcome.columns)
                with written_whole(place / f"{name}.svg", ".svg") as file:
                    file.write(plots[name])
            with written_whole(place / f"{name}.csv", ".csv") as file:
                write_csv(map(done.row_dict, outcome.rows), file)
        if claims and whole:
            with written_whole(place / "claims.csv", ".csv") as file:
                write_csv(map(asdict, claims), file)
        report.write(render(done, plots))
    return done


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
