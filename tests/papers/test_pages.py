"""What a reproduction leaves, and what it refuses."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

import antiphon
from antiphon.papers import PAPERS
from antiphon.papers.ccube.trees import doubled, fig5, fig10
from antiphon.repro.figure import Outcome, Paper, Steps
from antiphon.repro.reproduction import choose, reproduce
from antiphon.repro.table import Table
from antiphon.studies import Point

TTO = PAPERS["tto"]


def test_every_paper_is_tested_by_a_few_points() -> None:
    for name in PAPERS:
        assert "def test_what_is_written" in (Path(__file__).parent / f"test_{name}.py").read_text("utf-8")


def test_the_whole_of_a_small_paper(tmp_path: Path) -> None:
    """Two figures of C-Cube as if they were all: claims are judged, written and counted."""
    paper = Paper(PAPERS["ccube"].data, (fig5, fig10), {"doubled": doubled})
    done = reproduce(paper, paper.figures, tmp_path)
    claims = list(csv.DictReader((tmp_path / "ccube" / "claims.csv").read_text("utf-8").splitlines()))
    assert [claim["verdict"] for claim in claims] == [claim.verdict for claim in done.claims]
    counts = Counter(claim.verdict for claim in done.claims)
    page = (tmp_path / "ccube" / "report.html").read_text("utf-8")
    assert f"<strong>{counts['holds']} of {len(claims)}</strong> claims hold" in page
    assert f", {counts['holds in part']} in part, {counts['does not hold']} do not" in page
    compared = sum(summary.compared for summary in done.figures.values())
    assert f"of {compared}</strong> published numbers" in page


def test_what_cannot_be_run_or_written_is_said(tmp_path: Path) -> None:

    def fig8(_quick: bool) -> Steps:
        yield [(None, [Point("mesh:3x3", "ring-bi", 1 << 20)])]
        return Outcome(Table(), [])

    paper = Paper(TTO.data, [fig8])
    with pytest.raises(antiphon.AntiphonError) as refused:
        reproduce(paper, paper.figures, tmp_path)
    assert refused.value.code == "not-applicable"
    (tmp_path / "tto-quick").write_text("")
    with pytest.raises(antiphon.AntiphonError, match="tto-quick: cannot be made: File exists"):
        reproduce(paper, paper.figures, tmp_path, quick=True)


@pytest.mark.parametrize("name", PAPERS)
def test_texts_and_styles(name: str) -> None:
    data = PAPERS[name].data
    assert {"title", "source", "reading", "judging"} <= set(data.texts)
    assert not [
        text for text in (*data.texts.values(), *(row["about"] for row in data.figures.values())) if "{" in text
    ]
    for series in data.series.values():
        assert not series.colour or re.fullmatch("#[0-9a-f]{6}", series.colour)


def test_figures_by_name() -> None:
    assert choose(PAPERS, "tto") == (TTO, list(TTO.figures))
    assert [one.name for one in choose(PAPERS, "tto/fig14", ["fig8"])[1]] == ["fig8", "fig14"]
    assert [one.name for one in choose(PAPERS, "tto", ["viii-b"])[1]] == ["viii-b"]
    with pytest.raises(antiphon.AntiphonError, match="no paper 'tt0', did you mean 'tto'"):
        choose(PAPERS, "tt0")
    with pytest.raises(antiphon.AntiphonError, match="no figure of tto 'fig88', did you mean 'fig8'"):
        choose(PAPERS, "tto", ["fig88"])


def test_without_matplotlib_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(antiphon.AntiphonError, match=r"pip install 'antiphon\[plots\]'"):
        reproduce(TTO, TTO.figures, tmp_path / "out")
    assert not (tmp_path / "out").exists()
