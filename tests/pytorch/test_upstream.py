"""PyTorch's own tests of process groups, on this one; `upstream/table.csv` has them all, beside gloo."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pytorch.lab import local

torch = pytest.importorskip("torch", reason="torch is too large for the development environment")
pytest.importorskip("expecttest", reason="PyTorch's tests need it")

UPSTREAM = Path(__file__).resolve().parent / "upstream"
# What a change is most likely to break: one test of each collective, type and kind of waiting.
SOME = {
    "four": "(all_gather|all_gather_coalesced_with_empty|all_reduce_coalesced_sum|all_reduce_full_group_product|"
    "all_reduce_sum_async|all_reduce_sum_complex|sparse_all_reduce_sum|barrier_timeout_full_group|"
    "batch_isend_irecv_gloo_tags|broadcast|gather|get_future|irecv|monitored_barrier_gloo|reduce_sum_twice|"
    "scatter_object_list|send_recv_any_source|DistributedDataParallelCPU|static_graph_api_cpu|"
    "accumulate_gradients_no_sync_allreduce_with_then_hook)$",
    "eight": "(all_reduce_group_sum|scatter_group)$",
    "all-to-all": "(all_to_all_full_group|all_to_all_single_equal_split|all_to_all_single_unequal_split_complex)$",
    "training": "(fully_sharded|layouts|unlike|gradients_through|ddp_comparison$)",
}


def expected() -> dict[str, set[str]]:
    """The tests of each suite that pass here, as the table has it."""
    with (UPSTREAM / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        suite: {row["test"] for row in rows if row["suite"] == suite and row["antiphon"] == "pass"}
        for suite in {row["suite"] for row in rows}
    }


def run(suite: str, only: str, folder: Path) -> dict[str, str]:
    """How the tests of a suite end that match a pattern; the reason with those that fail."""
    out = folder / "out.csv"
    job = local([str(UPSTREAM / "runner.py"), suite, "-k", only, "--out", str(out)], folder, 1, limit_s=280)
    job.wait()
    assert out.exists(), job.text(0)
    with out.open(newline="") as file:
        return {
            row["test"]: row["verdict"] if row["verdict"] != "fail" else f"fail: {row['note']}"
            for row in csv.DictReader(file)
        }


@pytest.mark.covers_processes
@pytest.mark.parametrize("suite", SOME)
def test_some_of_pytorchs_tests_pass(suite: str, tmp_path: Path) -> None:
    found = run(suite, SOME[suite], tmp_path)
    known = expected()[suite]
    assert {test: verdict for test, verdict in found.items() if test in known and verdict != "pass"} == {}
    assert any(test in known for test in found)


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["four", "eight", "name", "all-to-all", "training"])
def test_all_that_passed_passes(suite: str, tmp_path: Path) -> None:
    found = run(suite, ".", tmp_path)
    known = expected()[suite]
    assert {test: found.get(test, "missing") for test in known if found.get(test) != "pass"} == {}


def test_the_table_has_all_that_pass_on_gloo() -> None:
    """But for one test, which passes under this group's own name."""
    with (UPSTREAM / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = [row for row in rows if row["antiphon"] != "pass"]
    assert [(row["suite"], row["test"]) for row in wrong] == [("four", "Main.test_ddp_logging_data_cpu")]
    assert ("name", "Main.test_ddp_logging_data_cpu", "pass") in {
        (row["suite"], row["test"], row["antiphon"]) for row in rows
    }
