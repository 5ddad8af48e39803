"""Multi-dimensional networks: API, commands, contract of their JSON, bad input; the numbers are tested in the core."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from records import has_keys

import antiphon
from antiphon import AntiphonError

FIG_5 = "sw4@1000/0ns,sw4@500/0ns"
KEYS: dict[type, str] = {
    str: "topology collective scheduler intra",
    int: "npus bytes chunks",
    float: "time_ns utilization utilization_bound",
    list: "dimensions orders",
}


def test_rails(commands: Any) -> None:
    run = commands.document("rails", "2D-SW_SW", "--scheduler", "themis", "--chunks", "8")
    has_keys(run, KEYS)
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sw0@1/1ns"], "0 NPUs"),
        (["sw6@1/1ns"], "power of two"),
        (["rong4@1/1ns"], "did you mean 'ring'"),
        (["fc4294967295@1/1ns,fc4294967295@1/1ns"], "2^40"),
        (["2D-SW_S"], "did you mean '2D-SW_SW'"),
        (["2D-SW_SW", "--scheduler", "themi"], "did you mean 'themis'"),
        (["2D-SW_SW", "--intra", "x"], "intra=x; expected fifo"),
        (["2D-SW_SW", "--collective", "broadcast"], "not broadcast"),
        (["2D-SW_SW", "--chunks", "0"], "0 chunks"),
        (["2D-SW_SW", "--chunks", "-1"], "neither a whole number nor 'best'"),
        (["2D-SW_SW", "--chunks", "9" * 30], "neither a whole number"),
        (["fc200@1/1ns,fc200@1/1ns", "--jitter-ns", "1"], "at most"),
        (["2D-SW_SW", "--bytes", "1PiB", "--chunks", "1"], "two hours"),
        (["fc16@1/1ns,fc16@1/1ns", "--jitter-ns", "1", "--chunks", "65536"], "use fewer chunks"),
        (["2D-SW_SW", "--seed", str(2**64)], "seed"),
        (["2D-SW_SW", "--packets", "4096"], "write PAYLOAD+HEADER"),
        (["2D-SW_SW", "--packets", "1+1,1+1,1+1"], "packets of 3 dimensions for 2"),
        (["2D-SW_SW", "--packets", "1+16777216", "--bytes", "1PiB"], "two hours"),
        (["2D-SW_SW", "--packets", "256+16", "--energy"], "leaves out headers"),
    ],
)
def test_mistakes(commands: Any, arguments: list[str], message: str) -> None:
    assert message in commands.refused("rails", *arguments)


def test_results_are_values_and_say_what_was_asked() -> None:
    run = antiphon.rails(FIG_5, chunks=4)
    assert pickle.loads(pickle.dumps(run)) == run == antiphon.rails(FIG_5, chunks=4)
    advice = antiphon.advise_rails(FIG_5)
    assert pickle.loads(pickle.dumps(advice)) == advice
    assert antiphon.rails("3D-SW_SW_SW_hetero", chunks="best").chunks < 256
    # Themis paper, Fig. 5: orders 12, 21, 12, 12.
    themis = antiphon.rails(FIG_5, "256MB", scheduler="themis", chunks=4)
    assert [first for first, _gather in themis.orders] == [[1, 2], [2, 1], [1, 2], [1, 2]]
    one, other = (antiphon.rails(FIG_5, collective=each) for each in ("reduce-scatter", "all-gather"))
    assert one.orders[0][1] == other.orders[0][0] == []
    assert antiphon.rails(FIG_5, collective="all-to-all").dimensions["bytes"] == pytest.approx([75e6, 75e6])
    assert antiphon.rails(FIG_5, sharing=4).dimensions["bytes"].sum() == pytest.approx(2 * 100e6 * 15 / 16)
    offloaded = antiphon.rails(FIG_5, offload=True)
    assert offloaded.time_ns < antiphon.rails(FIG_5).time_ns
    assert offloaded.proof is None
    assert str(antiphon.rails("4D-Ring_FC_Ring_SW").proof).startswith("proven by symmetry for 1024 NPUs")


def test_jitter() -> None:
    arguments: dict[str, Any] = {"scheduler": "themis", "intra": "fifo", "chunks": 16, "jitter_ns": 50_000}
    run = antiphon.rails(topology := "sw4@1000/700ns,sw4@800/700ns,sw4@400/700ns", **arguments)
    assert run.jittered_time_ns is not None
    assert run.jittered_time_ns > run.time_ns
    with pytest.raises(AntiphonError, match="holds dimension") as caught:
        antiphon.rails(topology, enforced=False, **arguments)
    assert caught.value.code == "stalled"


@pytest.mark.parametrize("scheduler", antiphon.rails_schedulers())
def test_messages_are_a_schedule(scheduler: str) -> None:
    topology = "ring4@2000/20ns,sw4@800/700ns,fc2@400/700ns"
    fabric, schedule = antiphon.rails_messages(topology, "256MiB", scheduler=scheduler, chunks=8)
    assert antiphon.verify(fabric, schedule).complete
    stages = antiphon.rails(topology, "256MiB", scheduler=scheduler, chunks=8)
    assert antiphon.simulate(fabric, schedule, "ideal").time_ns == pytest.approx(stages.time_ns, rel=0.02)


def test_the_largest_seed_and_what_is_no_topology(commands: Any) -> None:
    assert commands.invoke("rails", "2D-SW_SW", "--seed", str(2**64 - 1), "--chunks", "4").exit_code == 0
    assert "no rails topology" in commands.refused("advise", "rails", "x")


def test_headers_take_time_and_are_no_goodput() -> None:
    plain = antiphon.rails(FIG_5, "64MiB", scheduler="baseline", chunks=1)
    cut = antiphon.rails(FIG_5, "64MiB", scheduler="baseline", chunks=1, packets="240+16")
    assert (plain.header_share, plain.dimensions["bytes"].tolist()) == (0.0, cut.dimensions["bytes"].tolist())
    assert cut.header_share == pytest.approx(16 / 256, rel=1e-4)
    assert cut.time_ns == pytest.approx(plain.time_ns * 256 / 240, rel=1e-4)
    assert cut.utilization * (1 - cut.header_share) == pytest.approx(plain.utilization * 240 / 256, rel=1e-4)
    engine: dict[str, Any] = {"scheduler": "phased", "endpoint": "ideal", "chunks": 16}
    slower = antiphon.rails("ace:4x4x4", "8MiB", packets="240+16", **engine)
    assert slower.time_ns == pytest.approx(antiphon.rails("ace:4x4x4", "8MiB", **engine).time_ns * 256 / 240, rel=0.02)
    with pytest.raises(AntiphonError, match="are the system's"):
        antiphon.rails_messages(FIG_5, packets="240+16")


def test_loads_at_an_endpoint() -> None:
    """Where the endpoint is the system's, or free, links are all that counts."""

    def orders(endpoint: str, *, loads: bool) -> list[tuple[list[int], list[int]]]:
        how: dict[str, Any] = {"scheduler": "themis", "endpoint": endpoint, "endpoint_loads": loads, "chunks": 64}
        return antiphon.rails("ace:4x4x4", "16MiB", **how).orders

    assert orders("system", loads=False) == orders("system", loads=True) == orders("npu", loads=False)
    assert orders("npu", loads=True) != orders("npu", loads=False)


def test_flights(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "flights.json"
    file.write_text('[{"name": "a", "bytes": "8MB", "dimensions": [2]}, {"bytes": "1MB", "after": ["a"]}]')
    (run,) = commands.document("rails", FIG_5, "--flights", file, "--scheduler", "themis")["runs"]
    assert [row["name"] for row in run["flights"]] == ["a", None]
    assert run["flights"][1]["start_ns"] == run["flights"][0]["finish_ns"]
    assert run["flights"][0]["finish_ns"] == pytest.approx(antiphon.rails("sw4@500/0ns", "8MB").time_ns, rel=1e-6)
    assert "baseline" in commands.invoke("rails", FIG_5, "--flights", file).stdout
    flights = [antiphon.RailsFlight("8MB", dimensions=[1]), antiphon.RailsFlight("8MB", start_ns=1)]
    runs = [antiphon.rails_flights(FIG_5, flights, "themis", shared_loads=shared) for shared in (False, True)]
    assert [each.orders[1][0][0] for each in runs] == [[1, 2], [2, 1]]
    assert runs[1].time_ns < runs[0].time_ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "no JSON"),
        ("[]", "at least one"),
        ("[3]", "no object"),
        ('[{"byte": 3}]', "unknown key 'byte'"),
        ('[{"bytes": true}]', "bytes is True; expected a size"),
        ('[{"after": ["x"]}]', "no entry before it"),
        ('[{"dimensions": [0]}]', "from 1 to 8"),
        ('[{"dimensions": [3]}]', "flight 0: its dimensions"),
        ('[{"start_ns": -1}]', "start_ns is -1"),
        ('[{"priority": -1}]', "priority"),
        ('[{"name": "a"}, {"name": "a"}]', "is there twice"),
        ('[{"collective": "broadcast"}]', "not broadcast"),
    ],
)
def test_mistakes_of_flights(commands: Any, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "flights.json"
    file.write_text(text)
    assert message in commands.refused("rails", FIG_5, "--flights", file)


def test_what_is_of_one_collective_is_refused_in_flight(commands: Any) -> None:
    given = ("rails", "2D-SW_SW", "--flights", "examples/rails-flights.json")
    for more in (["--chunks", "best"], ["--jitter-ns", "1"], ["--sharing", "2"], ["--energy"], ["--free-order"]):
        assert "of one collective" in commands.refused(*given, *more)


def test_loads_are_shared_in_training() -> None:
    network = "rails:sw16@120/700ns,sw64@80/1700ns"
    times = [
        antiphon.train("gnmt", network, f"themis:scf{more}", overlap="layerwise").iteration_ns
        for more in ("", "+shared-loads")
    ]
    assert times[1] < times[0]
    with pytest.raises(AntiphonError, match="nothing that Themis minds"):
        antiphon.train("gnmt", network, "themis:scf+own-loads")
