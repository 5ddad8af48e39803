"""The ACE paper: closed forms, Figs. 5 and 6, tables of layers; the whole of it if slow tests run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.papers import PAPERS
from antiphon.papers.ace.allreduce import BASELINE, enough, most, sent
from antiphon.papers.ace.runs import (
    ACE,
    COMM_OPT,
    COMP_OPT,
    DATA,
    DLRM,
    GNMT,
    IDEAL,
    RESNET,
    SHAPES,
    covered,
    iteration,
    left,
    workload,
)
from antiphon.papers.ace.training import over_baselines
from antiphon.repro.figure import Outcome
from antiphon.repro.reproduction import choose, reproduce
from antiphon.repro.result import Reproduction
from antiphon.repro.table import Table
from antiphon.studies import Store

NAME = "ace"
PAPER = PAPERS[NAME]


@pytest.fixture(scope="module")
def all_reduce(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Figures 5 and 6 and section VI-A in whole, without their page."""
    _, figures = choose(PAPERS, NAME, ["fig5", "fig6", "vi-a"])
    with Store(tmp_path_factory.mktemp("all_reduce")) as store:
        points = {point for one in figures for point in one.points(False)}
        store.ensure(points, 2)
        results = {point: store[point] for point in points}
    return {one.name: one.evaluate(results, False) for one in figures}


def test_what_is_exact(quick: tuple[Reproduction, Path], all_reduce: dict[str, Outcome]) -> None:
    outcomes = quick[0].outcomes | all_reduce
    inputs = [row for row in outcomes["tables"].rows if not row.agrees]
    assert [(row.group, row.what, row.ours) for row in inputs] == [("III", "Message", 8.0)]  # Table V has 8 KB
    for figure in ("table4", "vi-a", "fig8"):
        compared = [row for row in outcomes[figure].rows if row.ratio is not None]
        assert compared
        missed = [(row.what, row.paper) for row in compared if not row.agrees]
        # Links send at 94 %.
        assert missed == ([("4x4x4", 300.0)] if figure == "vi-a" else [])
    area, power = (row.ours for row in outcomes["table4"].rows if row.group == "ACE")
    assert area == 5_339_031
    assert power == pytest.approx(4254.537)


@pytest.mark.parametrize(
    ("npus", "bytes_sent", "saturated"), [(16, 2, 400), (32, 2.125, 283.33), (64, 2.25, 300), (128, 2.3125, 264.29)]
)
def test_closed_forms(npus: int, bytes_sent: float, saturated: float, all_reduce: dict[str, Outcome]) -> None:
    assert sent(npus) == pytest.approx(bytes_sent)
    assert most(npus, 1) == pytest.approx(saturated, rel=1e-4)
    found = all_reduce["vi-a"].table.where(npus=npus)[0]
    assert found["sent"] == pytest.approx(bytes_sent)
    assert 0.93 * most(npus) <= found["most"] <= most(npus)


def test_memory_and_processors_that_are_enough(all_reduce: dict[str, Outcome]) -> None:
    table = all_reduce["fig5"].table
    baseline, ace = ([enough(table, series, npus) for npus in (16, 64)] for series in (BASELINE, ACE))
    assert sum(baseline) / 2 == pytest.approx(450, rel=0.07)
    assert ace[1] == pytest.approx(128, rel=0.15)
    assert baseline[1] / ace[1] >= 3
    rates = all_reduce["fig6"].table.where(series=BASELINE).column("rate")
    assert rates[:7] == pytest.approx([53, 106, 159, 211, 263, 278, 278], rel=0.02)


def test_layers_have_the_published_gradients() -> None:
    def gradients(model: str, loop: str) -> int:
        return sum(
            int(row["wg_all_reduce"] or 0)
            for row in DATA.table("layers")
            if row["model"] == model and loop in (row["loops"] or loop).split("|")
        )

    assert (
        gradients("DLRM", "overlap") == gradients("DLRM", "blocking") == gradients("DLRM", "optimized") == 114_823_168
    )
    assert gradients("GNMT", "overlap") == 553_468_416
    assert gradients("ResNet-50", "overlap") == 102_011_648 // 2


def test_loops_of_dlrm() -> None:
    assert [len(workload("DLRM", loop, 1.0)) for loop in ("overlap", "table's update", "blocking", "optimized")] == [
        21,
        21,
        20,
        21,
    ]


def test_what_is_left_for_computation() -> None:
    """Table VI: 450 of 900 GB/s and 74 of 80 SMs, and so on."""
    assert (left(COMM_OPT, 1), left(COMM_OPT, 0)) == (2, 80 / 74)
    assert left(ACE, 0.5) == 0.5 * 900 / 772 + 0.5
    assert left(COMP_OPT, 0.5, 80, 1) == 0.5 * 900 / 692 + 0.5 * 80 / 77


def testcovered_time() -> None:
    assert covered([(2, 4), (3, 6), (8, 9), (4, 5)], [0, 2, 5, 7, 8.5, 10]).tolist() == [0, 0, 3, 4, 4.5, 5]


def test_what_limits_the_engine_gains_most(tables: dict[str, dict[str, Table]]) -> None:
    """Section IV-I: where a part of the engine limits it, twice as much of that part gains most."""
    for _, of in tables[NAME]["iv-i"].by("npus"):
        (limit,) = set(of.column("limit"))
        gains = dict(zip(of.column("part"), of.column("gain"), strict=True))
        assert limit.startswith("dim") or max(gains, key=gains.__getitem__) == limit
        assert gains["alus"] <= 1.05


def test_what_a_fit_used_does_not_count(tables: dict[str, dict[str, Table]]) -> None:
    """Six shares and their four ratios; two numbers from which a share was solved; two ratios of
    computations that follow from that share; and two ratios of the six, in the words of VI-C."""
    fitted = [
        f"{figure}: {what}" for figure in DATA.stated for what, of in DATA.stated[figure].items() if of.kind == "fitted"
    ]
    assert len(fitted) == 16
    assert not [name for name in fitted if "ResNet-50: ACE" in name or "BaselineNoOverlap" in name]
    solved = ((1 - 0.315) / 0.353 - 80 / 74) / (2 - 80 / 74)
    assert float(RESNET.more["memory_bound"]) == pytest.approx(solved, abs=5e-4)


def test_fits_are_declared() -> None:
    for model in (GNMT, DLRM):
        assert model.more["scale"] in DATA.texts["fit"]
        assert f"{100 * float(model.more['memory_bound']):.0f} %" in DATA.texts["fit"]
    for name in ("fig9b", "fig10", "fig11", "fig12"):
        assert DATA.texts["fit"] in DATA.figures[name]["about"]


def test_dlrm_on_128_npus_is_as_fitted() -> None:
    times = {
        system: iteration(DLRM, 128, system).measure()["iteration_ns"] for system in (COMM_OPT, COMP_OPT, ACE, IDEAL)
    }
    for system in (COMM_OPT, COMP_OPT, ACE):
        paper = DATA.stated["fig10"][f"DLRM: {system}"].value
        assert 100 * times[IDEAL] / times[system] == pytest.approx(paper, abs=3)


def test_ace_is_above_every_baseline(tables: dict[str, dict[str, Table]]) -> None:
    for model in (RESNET, GNMT, DLRM):
        for npus in SHAPES:
            of = tables[NAME]["fig11"].where(model=model, npus=npus)
            shares = {str(entry["series"]): entry["share"] for entry in of}
            assert shares.pop("Ideal") == 100
            assert max(shares, key=shares.__getitem__) == "ACE"


def test_stored_tables_are_what_comes_out(all_reduce: dict[str, Outcome], tables: dict[str, dict[str, Table]]) -> None:
    for figure in ("fig5", "fig6"):
        stored = tables[NAME][figure].column("rate")
        assert all_reduce[figure].table.column("rate") == pytest.approx(stored, rel=1e-5)


def test_rows_of_all_sizes(tables: dict[str, dict[str, Table]]) -> None:
    """Each has a number of the paper's text beside it; ACE's share of the ideal is the largest mean."""
    rows = over_baselines(tables[NAME]["fig11"], quick=False)
    published = [row for row in rows if row.paper is not None]
    assert len(published) == len(DATA.stated["fig11"])
    shares = {row.what: row.ours for row in rows if row.group.startswith("Share of Ideal")}
    assert max(shares, key=shares.__getitem__) == "ACE"


@pytest.mark.slow
def test_the_whole_paper(tmp_path: Path, tables: dict[str, dict[str, Table]]) -> None:
    done = reproduce(PAPER, PAPER.figures, tmp_path)
    assert len(done.claims) == len(DATA.table("claims"))
    for figure, column in (("fig9a", "speed"), ("fig10", "share"), ("fig11", "share"), ("fig12", "gain")):
        assert done.outcomes[figure].table.column(column) == pytest.approx(
            tables[NAME][figure].column(column), rel=1e-5
        )


def test_what_is_written(quick: tuple[Reproduction, Path], check_written: Callable[[Reproduction, Path], None]) -> None:
    check_written(*quick)
