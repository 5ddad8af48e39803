"""Papers by a few runs, and without one: their tables as scripts/store_tables.py stored them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from antiphon.papers import PAPERS
from antiphon.repro.reproduction import reproduce
from antiphon.repro.result import Reproduction
from antiphon.repro.table import Table

HERE = Path(__file__).resolve().parent


def stored(name: str) -> dict[str, Table]:
    """The tables of a paper, by figure."""
    series = PAPERS[name].data.series
    document = json.loads((HERE / f"{name}.json").read_text("utf-8"))

    def entry(found: dict[str, object]) -> dict[str, object]:
        return {
            axis: series.get(str(value), value) if axis in ("series", "model") else value
            for axis, value in found.items()
        }

    return {figure: Table(map(entry, entries)) for figure, entries in document.items()}


@pytest.fixture(scope="session")
def tables() -> dict[str, dict[str, Table]]:
    """Of the papers whose runs take longer than a test should."""
    return {name: stored(name) for name in ("tto", "themis", "ace", "aries")}


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """A few points of every figure of the paper that is the module's ``NAME``, and the folder with what is written."""
    name = request.module.NAME
    folder = tmp_path_factory.mktemp(name)
    return reproduce(PAPERS[name], PAPERS[name].figures, folder, quick=True), folder


def _check_written(reproduction: Reproduction, folder: Path) -> None:
    paper, folder = reproduction.paper, folder / f"{reproduction.paper.name}-quick"
    json.dumps(reproduction.to_dict(), allow_nan=False)
    plots = {name for name, outcome in reproduction.outcomes.items() if outcome.charts}
    assert list(reproduction.outcomes) == [figure.name for figure in paper.figures] == list(paper.data.figures)
    assert {path.name for path in folder.iterdir()} == (
        {f"{name}.csv" for name in reproduction.outcomes} | {f"{name}.svg" for name in plots} | {"report.html"}
    )
    page = (folder / "report.html").read_text("utf-8")
    assert "a few points only" in page
    assert "What the paper claims" not in page
    assert ("Artifact" in page) == (paper.name == "tto")  # the others have none
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # needs nothing else
    assert len(page) < 1e6
    images = re.findall(r'src="data:image/svg\+xml,([^"]*)"', page)
    assert len(images) == len(plots)
    for image in images:
        texts = {text.text for text in ElementTree.fromstring(unquote(image)).iter("{http://www.w3.org/2000/svg}text")}
        assert {chart.title for outcome in reproduction.outcomes.values() for chart in outcome.charts} & texts
    for name, outcome in reproduction.outcomes.items():
        assert paper.data.figures[name]["title"].replace("'", "&#39;") in page
        assert len(list(csv.DictReader((folder / f"{name}.csv").read_text("utf-8").splitlines()))) == len(outcome.rows)


@pytest.fixture
def check_written() -> Callable[[Reproduction, Path], None]:
    """Checks what a reproduction of a few points of every figure leaves in a folder."""
    return _check_written
