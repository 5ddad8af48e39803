"""Multi-dimensional networks: API, commands, contract of their JSON, bad input; the numbers are tested in the core."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError

FIG_5 = "sw4@1000/0ns,sw4@500/0ns"
KEYS = {
    "topology": str,
    "npus": int,
    "collective": str,
    "bytes": int,
    "scheduler": str,
    "intra": str,
    "chunks": int,
    "time_ns": float,
    "utilization": float,
    "utilization_bound": float,
    "dimensions": list,
    "orders": list,
}


def test_the_example_of_figure_5() -> None:
    """Themis paper, Fig. 5: 8.0 and 7.0 units; orders 12, 21, 12, 12."""
    baseline, themis = (antiphon.rails(FIG_5, "256MB", scheduler=name, chunks=4) for name in ("baseline", "themis"))
    unit = baseline.time_ns / 8
    assert themis.time_ns / unit == pytest.approx(7)
    assert [first for first, _gather in themis.orders] == [[1, 2], [2, 1], [1, 2], [1, 2]]
    assert themis.dimensions["busy_ns"] / unit == pytest.approx([6.5, 7])


@pytest.mark.parametrize("name", antiphon.rails_topologies())
def test_the_search_is_never_worse(name: str) -> None:
    for chunks in (4, 64):
        times = [antiphon.rails(name, scheduler=each, chunks=chunks).time_ns for each in antiphon.rails_schedulers()]
        assert times[2] <= min(times[:2])


def test_the_best_number_of_chunks() -> None:
    best, many = (antiphon.rails("3D-SW_SW_SW_hetero", chunks=chunks) for chunks in ("best", 256))
    assert best.chunks < 256
    assert best.time_ns < 1.02 * many.time_ns


def test_collectives() -> None:
    one, other = (antiphon.rails(FIG_5, collective=each) for each in ("reduce-scatter", "all-gather"))
    assert one.orders[0][1] == other.orders[0][0] == []
    both = antiphon.rails(FIG_5)
    sent = both.dimensions["bytes"].sum()
    assert one.dimensions["bytes"].sum() + other.dimensions["bytes"].sum() == pytest.approx(sent)
    assert sent == pytest.approx(2 * 100e6 * 15 / 16)
    assert antiphon.rails(FIG_5, collective="all-to-all").dimensions["bytes"] == pytest.approx([75e6, 75e6])
    assert antiphon.rails(FIG_5, offload=True).time_ns < both.time_ns
    assert antiphon.rails(FIG_5, sharing=4).dimensions["bytes"] == pytest.approx(both.dimensions["bytes"])


def test_jitter() -> None:
    topology = "sw4@1000/700ns,sw4@800/700ns,sw4@400/700ns"
    arguments: dict[str, Any] = {"scheduler": "themis", "intra": "fifo", "chunks": 16}
    run = antiphon.rails(topology, jitter_ns=50_000, **arguments)
    assert run.jittered_time_ns is not None
    assert run.jittered_time_ns > run.time_ns
    with pytest.raises(AntiphonError, match="holds dimension") as caught:
        antiphon.rails(topology, jitter_ns=50_000, enforced=False, **arguments)
    assert caught.value.code == "stalled"


@pytest.mark.parametrize("scheduler", antiphon.rails_schedulers())
def test_messages_take_as_long_as_stages(scheduler: str) -> None:
    topology = "ring4@2000/20ns,sw4@800/700ns,fc2@400/700ns"
    stages = antiphon.rails(topology, "256MiB", scheduler=scheduler, chunks=8)
    fabric, schedule = antiphon.rails_messages(topology, "256MiB", scheduler=scheduler, chunks=8)
    assert antiphon.verify(fabric, schedule).complete
    assert antiphon.simulate(fabric, schedule, "ideal").time_ns == pytest.approx(stages.time_ns, rel=0.02)


def test_large_plans_are_proven_by_symmetry() -> None:
    proof = antiphon.rails("4D-Ring_FC_Ring_SW").proof
    assert proof is not None
    assert proof.startswith("proven by symmetry for 1024 NPUs")
    assert antiphon.rails("2D-SW_SW", offload=True).proof is None


def test_results_are_values() -> None:
    run = antiphon.rails(FIG_5, chunks=4)
    assert pickle.loads(pickle.dumps(run)) == run == antiphon.rails(FIG_5, chunks=4)
    advice = antiphon.advise_rails(FIG_5)
    assert pickle.loads(pickle.dumps(advice)) == advice


def test_rails(commands: Any) -> None:
    run = commands.document("rails", "2D-SW_SW", "--scheduler", "themis", "--chunks", "8")
    assert {key: type(run[key]) for key in KEYS} == KEYS
    assert run["jittered_time_ns"] is None
    assert len(run["orders"]) == 8
    assert {tuple(row) for row in run["dimensions"]} == {("name", "spec", "utilization", "bytes", "busy_ns")}
    weights = [1200, 800]
    mean = sum(row["utilization"] * rate for row, rate in zip(run["dimensions"], weights, strict=True)) / 2000
    assert run["utilization"] == pytest.approx(mean)
    runs = commands.document("rails", "2D-SW_SW", "--scheduler", "baseline,search")["runs"]
    assert [each["scheduler"] for each in runs] == ["baseline", "search"]
    printed = commands.invoke("rails", "2D-SW_SW").stdout
    assert all(name in printed for name in ("baseline", "themis", "search"))


def test_advise(commands: Any) -> None:
    advice = commands.document("advise", "rails", "sw16@1600/0ns,sw8@25/0ns")
    assert advice["pairs"] == [{"near": 1, "far": 2, "ratio": 0.25, "provision": "under-provisioned"}]
    assert [row["binding"] for row in advice["dimensions"]] == [False, True]
    assert advice["utilization_bound"] == pytest.approx(advice["baseline_utilization"])
    assert "holds all others back" in commands.invoke("advise", "rails", "sw16@1600/0ns,sw8@25/0ns").stdout


def test_mistakes(commands: Any) -> None:
    def refused(*arguments: str) -> str:
        return str(commands.refused("rails", *arguments))

    assert "0 NPUs" in refused("sw0@1/1ns")
    assert "power of two" in refused("sw6@1/1ns")
    assert "did you mean 'ring'" in refused("rong4@1/1ns")
    assert "2^40" in refused("fc4294967295@1/1ns,fc4294967295@1/1ns")
    assert "did you mean '2D-SW_SW'" in refused("2D-SW_S")
    assert "did you mean 'themis'" in refused("2D-SW_SW", "--scheduler", "themi")
    assert "intra=x; expected fifo or scf" in refused("2D-SW_SW", "--intra", "x")
    assert "not broadcast" in refused("2D-SW_SW", "--collective", "broadcast")
    assert "0 chunks" in refused("2D-SW_SW", "--chunks", "0")
    assert "neither a whole number nor 'best'" in refused("2D-SW_SW", "--chunks", "-1")
    assert "neither a whole number nor 'best'" in refused("2D-SW_SW", "--chunks", "9" * 30)
    assert "at most" in refused("fc200@1/1ns,fc200@1/1ns", "--jitter-ns", "1")
    assert "two hours" in refused("2D-SW_SW", "--bytes", "1PiB", "--chunks", "1")
    assert "use fewer chunks" in refused("fc16@1/1ns,fc16@1/1ns", "--jitter-ns", "1", "--chunks", "65536")
    assert refused("2D-SW_SW", "--seed", str(2**64))
    commands.invoke("rails", "2D-SW_SW", "--seed", str(2**64 - 1), "--chunks", "4")
    assert "no rails topology" in commands.refused("advise", "rails", "x")
