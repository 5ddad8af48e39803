"""The Themis paper: a few points of every figure and the means over all 30; the whole of it if slow tests run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import antiphon
from antiphon.papers import PAPERS
from antiphon.papers.themis.training import groups
from antiphon.repro.claims import judge_all
from antiphon.repro.figure import Outcome
from antiphon.repro.reproduction import choose, reproduce
from antiphon.repro.result import Reproduction
from antiphon.repro.table import Table
from antiphon.repro.terminal import reproduction_document
from antiphon.studies import Store
from antiphon.view.markdown import markdown

NAME = "themis"
THEMIS = PAPERS["themis"]
STATED = THEMIS.data.stated


@pytest.fixture(scope="module")
def means(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Figures 8, 10 and 11 in whole, without their page."""
    _, figures = choose(PAPERS, "themis", ["fig8", "fig10", "fig11"])
    with Store(tmp_path_factory.mktemp("means")) as store:
        points = {point for one in figures for point in one.points(False)}
        store.ensure(points, 2)
        results = {point: store[point] for point in points}
    return {one.name: one.evaluate(results, False) for one in figures}


def test_what_is_exact(quick: tuple[Reproduction, Path]) -> None:
    outcomes = quick[0].outcomes
    for figure in ("table1", "table2", "fig5"):
        compared = [row for row in outcomes[figure].rows if row.ratio is not None]
        assert compared
        assert all(row.agrees for row in compared)
    fig5 = outcomes["fig5"].table
    assert fig5.one("orders", series="Themis+SCF") == 12_21_12_12
    names = ("Baseline", "Themis+FIFO", "Themis+SCF", "Themis+SCF, larger size")
    assert [fig5.one("makespan", series=name) for name in names] == [8, 8, 8, 7]


def test_scenarios_are_what_is_advised(quick: tuple[Reproduction, Path]) -> None:
    table = quick[0].outcomes["scenarios"].table
    for ratio in (0.25, 0.5, 1, 2, 4, 8, 16):
        of = table.where(ratio=ratio)
        assert of[0]["advice"] == pytest.approx(ratio, rel=0.01)
        bound = of.one("utilization", series="Bound of any scheduler")
        assert of.one("utilization", series="Search") <= bound + 1e-9
        assert bound == 100 if ratio > 1 else bound <= 100


def test_means_of_the_30_points(means: dict[str, Outcome]) -> None:
    table = means["fig11"].table
    for name, paper in STATED["fig11"].items():
        assert table.where(series=name).values("utilization").mean == pytest.approx(paper.value, rel=0.05)
    assert table.where(series="Search").values("utilization").mean >= 99
    for name in table.axis("topology"):
        closed = 100 * antiphon.advise_rails(name).baseline_utilization
        found = table.one("utilization", series="Baseline", topology=name, size=1_000_000_000)
        assert found == pytest.approx(closed, abs=0.1)
    rows = [row for row in means["fig8"].rows if row.group in {"Themis+FIFO", "Themis+SCF"} and row.paper]
    assert len(rows) == 2
    assert all(row.ratio == pytest.approx(1, abs=0.02) for row in rows)


def test_few_and_many_chunks(means: dict[str, Outcome]) -> None:
    ours = {(row.group, row.what): row.ours for row in means["fig10"].rows}
    of = {name: f"{name}, loads from zero" for name in ("Themis+FIFO", "Themis+SCF")}
    assert ours[of["Themis+FIFO"], "mean of the two, 4 chunks"] == pytest.approx(43.13, rel=0.05)
    assert ours[of["Themis+SCF"], "mean of the two, 4 chunks"] == pytest.approx(48.58, rel=0.05)
    assert ours[of["Themis+FIFO"], "mean of the two, 512 chunks"] == pytest.approx(87.81, rel=0.05)
    for chunks, least in ((4, 70), (8, 88), (16, 96)):
        assert ours["Search", f"mean of the six topologies, {chunks} chunks"] >= least


def test_the_reference_model_agrees(means: dict[str, Outcome]) -> None:
    rows = [row for outcome in means.values() for row in outcome.rows if row.reference is not None]
    assert len(rows) == sum(row["figure"] in means for row in THEMIS.data.table("reference"))
    for row in rows:
        if row.group != "Search":  # a search of its own
            assert row.ours == pytest.approx(row.reference, rel=0.005), row


def test_stored_tables_are_what_comes_out(means: dict[str, Outcome], tables: dict[str, dict[str, Table]]) -> None:
    for figure, outcome in means.items():
        stored = tables["themis"][figure].column("utilization")
        assert outcome.table.column("utilization") == pytest.approx(stored, rel=1e-5)


@pytest.mark.parametrize(
    ("topology", "parallel", "model", "data"),
    [
        ("2D-SW_SW", 1, (1024, 2000), (1024, 2000)),
        ("2D-SW_SW", 128, (128, 2000), (8, 800)),
        ("3D-SW_SW_SW_hetero", 128, (128, 2400), (8, 400)),
        ("4D-Ring_FC_Ring_SW", 128, (128, 5600), (8, 800)),
    ],
)
def test_groups(topology: str, parallel: int, model: tuple[int, float], data: tuple[int, float]) -> None:
    assert groups(topology, parallel) == (model, data)


def test_claims_of_our_own_are_none_of_the_paper(
    quick: tuple[Reproduction, Path], tables: dict[str, dict[str, Table]]
) -> None:
    """By the stored tables; figures that have none are no search of ours."""
    claims = judge_all(THEMIS.data, THEMIS.checks, tables["themis"])
    printed = markdown(reproduction_document(replace(quick[0], claims=claims)))
    paper, ours = (line for line in printed.splitlines() if line.startswith(("Claims of the paper: ", "Ours: ")))
    of_paper = [claim for claim in claims if claim.where != "ours"]
    counts = [sum(map(int, re.findall(r"\d+", line))) for line in (paper, ours)]
    assert counts == [len(of_paper), len(claims) - len(of_paper)] == [36, 3]
    docs = (Path(__file__).resolve().parents[2] / "docs" / "papers" / "themis.md").read_text("utf-8")
    said = (
        paper.removeprefix("Claims of the paper: ").replace("hold in part", "in part").replace("do not hold", "do not")
    )
    assert f"Of {len(of_paper)} claims, {said}" in docs


@pytest.mark.slow
def test_the_whole_paper(tmp_path: Path) -> None:
    done = reproduce(THEMIS, THEMIS.figures, tmp_path)
    assert len(done.claims) == len(THEMIS.data.table("claims"))
    table = done.outcomes["fig12"].table
    for name, paper in (("Themis+SCF", 1.65), ("Ideal", 1.72)):
        assert table.ratios("exposed", "Baseline", name).mean == pytest.approx(paper, rel=0.05)
    for _, of in table.by("model"):
        baseline, themis, search, ideal = (sum(each.column("time")) for _, each in of.by("series"))
        assert ideal <= search <= themis <= baseline
    coming = done.outcomes["fig4"].table.where("topology!=2D-current", series="Baseline")
    assert coming.values("share").mean == pytest.approx(59.7, abs=1.5)


def test_what_is_written(quick: tuple[Reproduction, Path], check_written: Callable[[Reproduction, Path], None]) -> None:
    check_written(*quick)
