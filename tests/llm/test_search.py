"""The fastest plans of a training step: API, command, contract of its JSON, page, bad input."""

from __future__ import annotations

import json
import pickle
import signal
import time
from functools import cache
from itertools import product
from types import FrameType
from typing import Any

import pytest
from looked import Looked
from records import has_keys

import antiphon
from antiphon import AntiphonError

PLAN: dict[str, Any] = {"model": "llama3-8b", "fabric": "dgx-h100:2", "batch": 32}
COMMAND = ("plan", "llama3-8b", "dgx-h100:2", "--batch", "32")
KEYS: dict[type, str] = {
    str: "model fabric constants endpoint given",
    bool: "priorities",
    float: "capacity_gib",
    int: "ranks batch sequence legal fit simulated",
    dict: "refused second_takes_more_s",
    list: "plans changes",
}


@cache
def found() -> antiphon.BestPlans:
    return antiphon.plan(**PLAN)


def test_result_is_a_record() -> None:
    assert pickle.loads(pickle.dumps(found())) == found() == antiphon.plan(**PLAN)
    document = found().to_dict()
    has_keys(document, KEYS)
    json.dumps(document)
    assert list(found().tables) == ["plans", "changes"]
    assert repr(found()) == f"<BestPlans of {found().legal:,} for llama3-8b on dgx-h100:2: {found().best}>"


def test_plans_are_those_of_step() -> None:
    rows = found().plans.rows()
    assert [row["rank"] for row in rows] == list(range(1, 11))
    assert [row["iteration_s"] for row in rows] == sorted(row["iteration_s"] for row in rows)
    for row in rows:
        run = antiphon.step(**PLAN, plan=row["plan"])
        for key in ("iteration_s", "compute_s", "bubble_s", "memory_gib", "tokens_per_s", "mfu", "energy_mj"):
            assert row[key] == pytest.approx(getattr(run, key), rel=1e-12), key
        assert (row["micro_batches"], row["layers_at_once"]) == (run.micro_batches, 1)
        assert {key: row.get(f"{key}_s", 0) for key in run.exposed_s} == pytest.approx(run.exposed_s)
        assert row["exposed_s"] == pytest.approx(sum(run.exposed_s.values()))
        assert row["bound_s"] <= row["iteration_s"] * (1 + 1e-12)


def test_the_first_is_the_fastest_of_all() -> None:
    """Against every plan of a small set, each timed by itself."""
    fixed = "cp=1,mb=1,v=1,schedule=1f1b,recompute=none"
    best = antiphon.plan(**PLAN, plan=fixed)
    times = []
    for tp, pp, zero in product((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), (0, 1, 2, 3)):
        try:
            run = antiphon.step(**PLAN, plan=f"tp={tp},pp={pp},zero={zero},{fixed}")
        except AntiphonError:
            continue  # it does not fit, or is not legal
        times.append(run.iteration_s)
    assert len(times) > 20
    assert best.plans["iteration_s"][0] == min(times)
    assert best.given == fixed


def test_counts_add_up() -> None:
    assert found().legal == found().fit + sum(found().refused.values())
    assert found().plans.height <= found().simulated <= found().fit
    any_memory = antiphon.plan(**PLAN, memory="none")
    assert (any_memory.capacity_gib, any_memory.fit, any_memory.refused) == (None, any_memory.legal, {})
    assert any_memory.plans["iteration_s"][0] <= found().plans["iteration_s"][0]


def test_the_second_says_why_the_first_wins() -> None:
    mixtral = antiphon.plan("mixtral-8x7b", "dgx-h100:2", "mb=1,cp=1", batch=32)
    first, second = mixtral.plans.rows()[:2]
    more = mixtral.second_takes_more_s
    assert more is not None
    assert sum(more.values()) == pytest.approx(second["iteration_s"] - first["iteration_s"], abs=1e-9)
    assert all(value == pytest.approx(second[f"{key}_s"] - first[f"{key}_s"]) for key, value in more.items())
    only = antiphon.plan(**PLAN, plan="tp=8,cp=1,pp=1,mb=1,zero=1,recompute=none,v=1,schedule=1f1b")
    assert (only.plans.height, only.legal, only.second_takes_more_s) == (1, 1, None)


def test_changes_are_steps_with_something_else() -> None:
    now = found().plans["iteration_s"][0]
    changes = {row["change"]: row for row in found().changes.rows()}
    assert changes["links between boxes twice as fast"]["iteration_s"] < now
    assert changes["one NIC less in one box"]["iteration_s"] > now
    assert now < changes["one GPU of the busiest stage takes 10 % longer"]["iteration_s"] < 1.1 * now
    twice = changes["twice the memory"]
    other = antiphon.plan(**PLAN, memory="160GiB")
    assert twice["iteration_s"] == other.plans["iteration_s"][0] < now
    assert antiphon.step(**PLAN, plan=twice["plan"], memory="160GiB").iteration_s == twice["iteration_s"]


def test_of_large_steps_equal_layers_are_taken_together() -> None:
    large: dict[str, Any] = {"model": "llama3-405b", "fabric": "dgx-h100:16", "batch": 256}
    best = antiphon.plan(**large, plan="tp=8,cp=1,pp=16,mb=1,schedule=1f1b,zero=1", memory="none")
    row = best.plans.rows()[0]
    assert row["layers_at_once"] > 1
    run = antiphon.step(**large, plan=row["plan"], memory="none")
    assert run.layers_at_once < row["layers_at_once"]
    assert row["iteration_s"] == pytest.approx(run.iteration_s, rel=0.01)
    assert "simulated as one" in " ".join(Looked(best.page()).text.split())
    assert "simulated as one" not in found().page()


def test_options_reach_the_search() -> None:
    how: dict[str, Any] = {"sequence": 2048, "constants": "h200", "endpoint": "npu", "priorities": True}
    given = antiphon.plan(**PLAN, plan="tp=2,zero=1", **how)
    assert (given.sequence, given.constants, given.endpoint, given.priorities) == (2048, "h200", "npu", True)
    assert all("tp=2" in plan for plan in given.plans["plan"])
    assert antiphon.step(**PLAN, plan=given.best, **how).iteration_s == given.plans["iteration_s"][0]


@pytest.mark.parametrize(
    ("changed", "code", "part"),
    [
        (
            {"model": "llama3-405b"},
            "not-applicable",
            r"none of \d+ legal plans fits; .* GiB a rank of 80.0 GiB, .* help",
        ),
        (
            {"plan": "tp=7"},
            "not-applicable",
            "no legal plan of llama3-8b with 'tp=7' for 32 sequences a step on 16 ranks",
        ),
        ({"plan": "tp=x"}, "bad-spec", "tp"),
        ({"plan": "speed=2"}, "unknown-name", "speed"),
        ({"model": "llama3-9b"}, "unknown-name", "llama3-9b"),
        ({"memory": "much"}, "bad-size", "much"),
        ({"endpoint": "magic"}, "unknown-name", "magic"),
    ],
)
def test_what_is_wrong_is_told(changed: dict[str, Any], code: str, part: str) -> None:
    with pytest.raises(AntiphonError, match=part) as raised:
        antiphon.plan(**PLAN | changed)
    assert raised.value.code == code


def test_progress_is_told_and_can_stop_a_search() -> None:
    shares: list[float] = []
    large: dict[str, Any] = {"model": "llama3-405b", "fabric": "dgx-h100:16", "batch": 256}

    def stop(share: float) -> None:
        shares.append(share)
        if len(shares) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        antiphon.plan(**large, progress=stop)
    assert len(shares) == 2
    assert 0 <= shares[0] <= shares[1] <= 1


def test_a_signal_ends_a_search() -> None:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        start = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            antiphon.plan("deepseek-v3", "h800:256", batch=15_360)
        assert time.process_time() - start < 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_command(commands: Any) -> None:
    document = commands.document(*COMMAND)
    assert {key: document[key] for key in found().to_dict()} == found().to_dict()
    shown = " ".join(commands.invoke(*COMMAND).stdout.split())
    for said in (
        f"{found().best}: a step of llama3-8b on dgx-h100:2 takes",
        f"Of {found().legal:,} legal plans {found().fit:,} fit, and {found().simulated:,} were simulated",
        "takes more than the first",
        "one NIC less in one box",
        "for activations",
    ):
        assert said in shown
    assert len(commands.invoke(*COMMAND, "--format", "csv").stdout.splitlines()) == 11


def test_the_command_that_looks_closer(commands: Any) -> None:
    options = ("--sequence", "4096", "--memory", "60GiB", "--priorities", "--endpoint", "npu")
    best = commands.document(*COMMAND, *options)["plans"][0]
    shown = " ".join(commands.invoke(*COMMAND, *options, "--format", "markdown").stdout.split())
    told = shown.partition("Where its time goes: antiphon ")[2].partition(" MFU: ")[0].split()
    assert told[:3] == ["step", "llama3-8b", "dgx-h100:2"]
    assert commands.document(*told)["iteration_s"] == best["iteration_s"]


def test_nothing_fits(commands: Any) -> None:
    told = commands.invoke("plan", "llama3-405b", "dgx-h100:1", "--batch", "16")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: none of ")


def test_page_draws_the_best(commands: Any) -> None:
    page = found().page()
    text = " ".join(Looked(page).text.split())
    for said in (
        found().best,
        "Why the first wins",
        "What would change",
        "waiting for data groups (dp)",
        "legal plans",
    ):
        assert said in text
    parts = sum(row[key] > 0 for row in found().plans.rows() for key in ("compute_s", "bubble_s", "dp_s"))
    assert page.count("<rect") >= parts
