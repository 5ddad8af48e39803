"""The Themis paper: a few points of every figure and the means over all 30; the whole of it if slow tests run."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import antiphon
from antiphon.papers import PAPERS, Reproduction, reproduce
from antiphon.papers.model import Outcome, published, stated
from antiphon.papers.reproduction import choose
from antiphon.papers.themis_claims import CHECKS
from antiphon.papers.themis_networks import RATIOS
from antiphon.papers.themis_schedulers import SERIES, TOPOLOGIES
from antiphon.papers.themis_training import _groups
from antiphon.study import Store

THEMIS = PAPERS["themis"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    folder = tmp_path_factory.mktemp("quick")
    return reproduce(THEMIS, THEMIS.experiments, folder, quick=True), folder


@pytest.fixture(scope="module")
def means(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Figures 8, 10 and 11 in whole, without their page."""
    _, experiments = choose(PAPERS, "themis", ["fig8", "fig10", "fig11"])
    with Store(tmp_path_factory.mktemp("means")) as store:
        points = {point for one in experiments for point in one.points(False)}
        store.ensure(points, 2)
        results = {point: store[point] for point in points}
    return {one.name: one.evaluate(results, False) for one in experiments}


def test_what_is_written(quick: tuple[Reproduction, Path]) -> None:
    reproduction = quick[0]
    folder = quick[1] / "themis-quick"
    names = {experiment.name for experiment in THEMIS.experiments}
    plots = names - {"table1"}
    written = {path.name for path in folder.iterdir()}
    assert written == {f"{n}.csv" for n in names} | {f"{n}.svg" for n in plots} | {"report.html"}
    page = (folder / "report.html").read_text("utf-8")
    assert "a few points only" in page
    assert "Artifact" not in page  # the paper has none
    for experiment in THEMIS.experiments:
        rows = list(csv.DictReader((folder / f"{experiment.name}.csv").read_text("utf-8").splitlines()))
        assert len(rows) == len(reproduction.outcomes[experiment.name].rows)
    assert not re.search(r'(src|href)="(?!data:|#)', page)


def test_what_is_exact(quick: tuple[Reproduction, Path]) -> None:
    outcomes = quick[0].outcomes
    for figure in ("table1", "table2", "fig5"):
        compared = [row for row in outcomes[figure].rows if row.ratio is not None]
        assert compared
        assert all(row.agrees for row in compared)
    fig5 = outcomes["fig5"].numbers
    assert [fig5["Themis+SCF", "order", chunk] for chunk in (1, 2, 3, 4)] == [12, 21, 12, 12]
    assert (fig5["Baseline",], fig5["Themis+SCF",], fig5["Themis+FIFO",]) == (8, 7, 8)


def test_scenarios_are_what_is_advised(quick: tuple[Reproduction, Path]) -> None:
    numbers = quick[0].outcomes["scenarios"].numbers
    for ratio in RATIOS:
        assert numbers["advice", str(ratio)] == pytest.approx(ratio, rel=0.01)
        bound = numbers["Bound of any scheduler", str(ratio)]
        assert numbers["Search", str(ratio)] <= bound + 1e-9
        assert bound == 100 if ratio > 1 else bound <= 100


def test_means_of_the_30_points(means: dict[str, Outcome]) -> None:
    numbers = means["fig11"].numbers
    for name, paper in stated("themis", "fig11").items():
        assert numbers[name, "mean"] == pytest.approx(paper, abs=1.5)
    assert numbers["Search", "mean"] >= 99
    for name in TOPOLOGIES:
        closed = 100 * antiphon.advise_rails(name).baseline_utilization
        assert numbers["Baseline", name, 1_000_000_000] == pytest.approx(closed, abs=0.1)
    rows = [row for row in means["fig8"].rows if row.group in {"Themis+FIFO", "Themis+SCF"} and row.paper]
    assert len(rows) == 4
    assert all(row.ratio == pytest.approx(1, abs=0.02) for row in rows)


def test_few_and_many_chunks(means: dict[str, Outcome]) -> None:
    numbers = means["fig10"].numbers
    assert numbers["Themis+FIFO", "two", 4] == pytest.approx(43.13, abs=1.5)
    assert numbers["Themis+SCF", "two", 4] == pytest.approx(48.58, abs=1.5)
    assert numbers["Themis+FIFO", "two", 512] == pytest.approx(87.81, abs=1.5)
    for chunks, least in ((4, 70), (8, 88), (16, 96)):
        assert numbers["Search", "six", chunks] >= least


def test_the_reference_model_agrees(means: dict[str, Outcome]) -> None:
    rows = [row for outcome in means.values() for row in outcome.rows if row.reference is not None]
    assert len(rows) == sum(row["figure"] in means for row in published("themis", "reference"))
    for row in rows:
        if row.group != "Search":  # a search of its own
            assert row.ours == pytest.approx(row.reference, rel=0.005), row


def test_every_claim_is_checked() -> None:
    rows = published("themis", "claims")
    assert [row["id"] for row in rows] == list(dict.fromkeys(row["id"] for row in rows))
    assert {row["id"] for row in rows} == set(CHECKS)
    known = {experiment.name for experiment in THEMIS.experiments}
    assert all(set(needs) <= known for needs, _ in CHECKS.values())


def test_every_series_has_a_style() -> None:
    assert {series.name for series in SERIES} <= set(THEMIS.styles)


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
    assert _groups(topology, parallel) == (model, data)


@pytest.mark.slow
def test_the_whole_paper(tmp_path: Path) -> None:
    done = reproduce(THEMIS, THEMIS.experiments, tmp_path)
    verdicts = {claim.text: claim.verdict for claim in done.claims}
    assert len(verdicts) == len(CHECKS)
    assert verdicts["Themis+SCF uses 95.14 %."] == "holds"
    assert verdicts["With 512 chunks, Themis+SCF uses 91.18 %."] == "does not hold"
    numbers = done.outcomes["fig12"].numbers
    assert numbers["exposed", "Themis+SCF"] == pytest.approx(1.65, rel=0.05)
    assert numbers["exposed", "Ideal"] == pytest.approx(1.72, rel=0.05)
    for model in ("ResNet-152", "GNMT", "DLRM", "Transformer-1T"):
        baseline, themis, search, ideal = (
            sum(numbers[model, name, one] for name in TOPOLOGIES)
            for one in ("Baseline", "Themis+SCF", "Search", "Ideal")
        )
        assert ideal <= search <= themis <= baseline
    assert done.outcomes["fig4"].numbers["mean",] == pytest.approx(59.7, abs=1.5)
    json.dumps(done.to_dict(), allow_nan=False)
