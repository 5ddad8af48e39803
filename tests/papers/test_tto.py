"""The TTO paper: a few points of every figure; the whole of it, with its targets, if slow tests run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import antiphon
from antiphon._core import TrainingPlan
from antiphon.papers import PAPERS
from antiphon.papers.tto.training import fig10, fig11, fig13
from antiphon.papers.tto.trees import most_trees, on_a_line, trees_of, walk
from antiphon.repro.figure import Figure, Steps
from antiphon.repro.reproduction import reproduce
from antiphon.repro.result import Reproduction
from antiphon.repro.table import Table
from antiphon.studies import Store, TrainingPoint

NAME = "tto"
TTO = PAPERS["tto"]


def errors(reproduction: Reproduction, figure: str) -> dict[str, float]:
    """The largest error of every group with published numbers."""
    return {
        summary.group: summary.error_max for summary in reproduction.summaries[figure] if summary.error_max is not None
    }


def test_a_few_points_of_every_figure(quick: tuple[Reproduction, Path]) -> None:
    reproduction, _ = quick
    for figure in ("fig8", "fig9", "fig12"):
        assert errors(reproduction, figure)["TTO"] < 0.001
    assert errors(reproduction, "fig14")["TTO"] < 0.005
    for figure in ("fig10", "fig13"):
        for name, limit in (
            ("TTO", 0.01),
            ("Ring", 0.01),
            ("RingBiEven", 0.01),
            ("MultiTree", 0.06),
            ("Ring-2D", 0.06),
        ):
            assert errors(reproduction, figure)[f"{name}: epoch"] < limit
    assert errors(reproduction, "fig11")["TTO"] < 0.01
    assert errors(reproduction, "viii-b")["Equation 1"] == 0


def test_table_i_is_what_counting_gives(quick: tuple[Reproduction, Path]) -> None:
    table = quick[0].outcomes["table1"].table
    for side in (8, 9):
        ranks, links = side * side, 4 * side * (side - 1)
        assert table.one("used", side=side, series="TTO") == pytest.approx(100 * (3 * ranks - 4) / links)
    assert table.one("used", side=8, series="Ring") == pytest.approx(100 * 64 / 224)
    for side, steps in ((8, 34), (9, 44)):
        ranks, links = side * side, 4 * side * (side - 1)
        expected = 100 * ranks * (ranks - 1) / (steps * links)
        assert table.one("used", side=side, series="MultiTree") == pytest.approx(expected)


@pytest.mark.parametrize("figure", ["fig3", "fig4", "fig7", "table2"])
def test_what_is_counted_is_what_the_paper_says(quick: tuple[Reproduction, Path], figure: str) -> None:
    rows = quick[0].outcomes[figure].rows
    assert [row.verdict for row in rows if not row.agrees] == []
    assert len(rows) >= 2


def test_trees_are_low_and_share_no_link(quick: tuple[Reproduction, Path]) -> None:
    table = quick[0].outcomes["fig6"].table
    assert {e["height"] - e["rows"] - e["columns"] for e in table} == {-2}
    assert {e["links used twice"] for e in table} == {0}
    assert {(e["rows"], e["most trees of all nodes"]) for e in table} == {(2, 2), (3, 2)}


@pytest.mark.parametrize(
    ("fabric", "trees"), [("mesh:2", 2), ("mesh:3", 2), ("fc:3", 3), ("mesh:2x2", 2), ("torus:3x3", 4)]
)
def test_most_trees(fabric: str, trees: int) -> None:
    assert most_trees(antiphon.Fabric(fabric)) == trees


def test_a_walk_goes_down_every_edge_and_back() -> None:
    assert list(walk([(1, 0), (3, 1), (2, 0)], 0)) == [0, 1, 3, 1, 0, 2, 0]
    assert trees_of(on_a_line(1)[1]) == [[(3, 2), (2, 1), (1, 0)], [(0, 1), (1, 2), (2, 3)]]


def test_no_chunk_is_larger_than_what_is_reduced() -> None:
    """What the whole is smaller than is one chunk."""
    mesh = antiphon.Fabric("mesh:8x8")
    larger, whole = (antiphon.build(mesh, f"tto:chunk={chunk}", bytes=1200, system="tto") for chunk in (24576, 1200))
    assert larger.to_json().replace(larger.algorithm, whole.algorithm) == whole.to_json()


@pytest.mark.parametrize("steps", [fig10, fig11, fig13])
def test_trainings_in_flits_are_those_of_small_exchanges(steps: Callable[[bool], Steps]) -> None:
    """Of at most 16 MiB; all such, of the algorithms that run in flits."""
    largest: dict[object, dict[str, int]] = {"flit": {}, "packet": {}}
    for point in Figure("", steps).points(False):
        assert isinstance(point, TrainingPoint)
        options = dict(point.options)
        plan = TrainingPlan(
            antiphon.workload(point.model), options["compute"], 16, overlap=options.get("overlap", "none")
        )
        largest[options.get("fidelity", "packet")][point.model] = max(size for _, size in plan.exchanges)
    assert set(largest["flit"]) == {model for model, size in largest["packet"].items() if size <= 16 << 20}
    assert max(largest["flit"].values()) <= 16 << 20


@pytest.mark.slow
def test_the_whole_paper(tmp_path: Path, tables: dict[str, dict[str, Table]]) -> None:
    done = reproduce(TTO, TTO.figures, tmp_path)
    for name in ("TTO", "Ring", "RingBiEven"):
        assert errors(done, "fig10")[f"{name}: epoch"] < 0.01
        assert errors(done, "fig13")[f"{name}: epoch"] < 0.01
    assert errors(done, "fig10")["Ring-2D: epoch"] < 0.065
    for name in ("Ring-2D", "DBTree (four ranks a router)", "MultiTree"):
        for figure in ("fig10", "fig13"):
            assert errors(done, figure)[f"{name}, in flits: epoch"] < 0.06
        assert errors(done, "fig11")[f"{name}, in flits"] < 0.06
    assert errors(done, "fig11")["TTO"] < 0.01
    assert errors(done, "fig11")["Ring"] < 0.01
    # The artifact exchanges less of FasterRCNN than the model has; that is 1.06 % of RingBiEven's iteration.
    assert errors(done, "fig11")["RingBiEven"] < 0.011
    assert errors(done, "fig14")["TTO"] < 0.005
    base, tto = done.outcomes["viii-b"].table
    assert base["time"] - tto["time"] == pytest.approx(3_930_030_731, rel=0.005)
    # What the other tests judge claims by is what comes out.
    for figure, outcome in done.outcomes.items():
        if "time" in outcome.table[0]:
            stored = tables["tto"][figure].column("time")
            assert outcome.table.column("time") == pytest.approx(stored, rel=1e-5)
    with Store(tmp_path) as store:
        assert store.ensure(point for one in TTO.figures for point in one.points(False)) == 0


def test_what_is_written(quick: tuple[Reproduction, Path], check_written: Callable[[Reproduction, Path], None]) -> None:
    check_written(*quick)


def test_the_same_page_again_without_a_run(quick: tuple[Reproduction, Path]) -> None:
    first, folder = quick
    before = {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    again = reproduce(PAPERS[NAME], PAPERS[NAME].figures, folder, quick=True)
    assert (first.new_runs, again.new_runs) == (first.runs, 0)
    assert {path.name: path.read_bytes() for path in folder.rglob("*.*")} == before
