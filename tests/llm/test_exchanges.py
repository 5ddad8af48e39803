"""Times of a step's collectives from a library's model or from our own schedules."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import antiphon
from antiphon import AntiphonError, StepRun
from antiphon.cli import main
from antiphon.library import nccl
from antiphon.library.cluster import Cluster

PLAN = "tp=8,sp=no,zero=0,dp-overlap=no"


def step(fabric: str = "dgx-h100:1", plan: str = PLAN, **given: str) -> StepRun:
    return antiphon.step("llama3-8b", fabric, plan, batch=16, **given)  # type: ignore[arg-type]


def timed(run: StepRun) -> dict[tuple[str, str], str]:
    return {(row["kind"], row["collective"]): row["timed_by"] for row in run.exchanges.rows()}


def test_library_times_tensor_groups_alone() -> None:
    run = step(library="nccl")
    bytes = 2 * run.sequence * 4096
    assert timed(run) == {("tp", "all-reduce"): "nccl"}
    [row] = run.exchanges.rows()
    assert (row["ranks"], row["boxes"], row["least_bytes"], row["most_bytes"]) == (8, 1, bytes, bytes)
    # Two AllReduces forward and two backward in each of 32 layers.
    time_s = nccl.choose(Cluster.parse("dgx-h100:1"), "all-reduce", bytes).time_us / 1e6
    assert run.exposed_s["tp"] == pytest.approx(16 * 32 * 4 * time_s, rel=1e-9)


def test_groups_that_share_nics_take_longer() -> None:
    eight, four = (step(f"dgx-h100:2:{nics}", library="nccl") for nics in ("nics=8", "nics=4"))
    assert timed(four) == {("tp", "all-reduce"): "nccl", ("dp", "all-reduce"): "nccl"}
    assert four.exposed_s["dp"] == pytest.approx(2 * eight.exposed_s["dp"], rel=0.01)


def test_messages_and_tokens_keep_their_routes() -> None:
    run = antiphon.step("mixtral-8x7b", "dgx-h100:4", "tp=2,pp=2,ep=8", batch=32, library="nccl", memory="none")
    by = timed(run)
    assert by["pp", "message"] == by["ep", "all-to-all"] == "routes"
    assert {name for (kind, _), name in by.items() if kind in ("tp", "dp", "edp")} == {"nccl"}


def test_rings_of_schedules_are_rings() -> None:
    plain, ring = step("dgx-h100:2"), step("dgx-h100:2", algorithm="ring")
    assert set(timed(plain).values()) == {"rings"}
    assert set(timed(ring).values()) == {"ring"}
    for kind in ("tp", "dp"):
        assert ring.exposed_s[kind] == pytest.approx(plain.exposed_s[kind], rel=0.03)


def test_optimal_schedules_do_not_borrow_nics_for_nothing() -> None:
    plain, optimal = step("dgx-h100:2"), step("dgx-h100:2", algorithm="optimal")
    # Switches of a box reduce; eight groups have one NIC each.
    assert optimal.exposed_s["tp"] < 0.8 * plain.exposed_s["tp"]
    assert optimal.exposed_s["dp"] == pytest.approx(plain.exposed_s["dp"], rel=0.02)


@pytest.mark.parametrize(
    ("fabric", "given", "code", "says"),
    [
        ("dgx-h100:1", {"library": "nccl", "algorithm": "ring"}, "bad-spec", "exclude each other"),
        ("dgx-h100:1", {"library": "mpi"}, "unknown-name", "known: nccl, rccl"),
        ("dgx-h100:1", {"algorithm": "rnig"}, "unknown-name", "ring"),
        ("dgx-h100:1", {"algorithm": "tto"}, "not-applicable", "all-reduce of tp groups of 8"),
        ("mesh:4x4", {"library": "nccl", "constants": "h100"}, "unknown-name", "no cluster"),
        ("dgx-h100:1", {"library": "rccl"}, "not-applicable", "RCCL"),
    ],
)
def test_errors(fabric: str, given: dict[str, str], code: str, says: str) -> None:
    with pytest.raises(AntiphonError, match=says) as error:
        step(fabric, **given)
    assert error.value.code == code


def test_command() -> None:
    words = ["step", "llama3-8b", "dgx-h100:1", "--plan", PLAN, "--batch", "16", "--library", "nccl"]
    done = CliRunner().invoke(main, [*words, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["exchanges"][0]["timed_by"] == "nccl"
    assert "nccl" in CliRunner().invoke(main, words).stdout
