"""The flit-level network under synthetic traffic: API, command, contract of its JSON, bad input."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Fabric

QUICK: dict[str, Any] = {"warm_up_cycles": 500, "cycles": 1000}
RUN_KEYS = {
    "fabric": str,
    "traffic": str,
    "rate": float,
    "packet_flits": int,
    "router": dict,
    "routing": str,
    "link_cycles": int,
    "latency_cycles": int,
    "seed": int,
    "packet_latency_cycles": dict,
    "network_latency_cycles": dict,
    "accepted_flits_per_node_cycle": float,
    "hops_mean": float,
    "stable": bool,
    "packets": int,
    "warm_up_cycles": int,
    "cycles": int,
    "flit_hops": int,
    "events": int,
}


@pytest.fixture(scope="module")
def mesh() -> Fabric:
    return Fabric("mesh:4x4")


def check_run(run: dict[str, Any]) -> None:
    assert {key: type(run[key]) for key in RUN_KEYS} == RUN_KEYS
    assert set(run["packet_latency_cycles"]) == {"mean", "half_width", "p50", "p99"}
    assert set(run["network_latency_cycles"]) == {"mean"}


def test_one_flit_takes_two_cycles_and_five_a_router(mesh: Fabric) -> None:
    result = antiphon.noc(mesh, "neighbor", 0.001, cycles=20_000)
    assert result.packet_latency_cycles.mean == pytest.approx(2 + 5 * result.hops_mean, rel=0.001)
    assert result.routing == "xy"
    assert result.stable


def test_result_is_a_record(mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=0.2, **QUICK)
    assert pickle.loads(pickle.dumps(result)) == result
    assert result == antiphon.noc(mesh, rate=0.2, **QUICK)
    assert result != antiphon.noc(mesh, rate=0.2, seed=2, **QUICK)
    assert result.router.vcs == 4
    assert result.router.output_queue_flits is None
    assert result.accepted_flits_per_node_cycle == pytest.approx(0.2, rel=0.1)
    check_run(result.to_dict())
    json.dumps(result.to_dict())


@pytest.mark.parametrize(
    "parameters",
    [
        {"packet_flits": 5, "switching": "cut-through"},
        {"allocator": "age", "iterations": 2},
        {"allocator": "round-robin", "input_speedup": 2, "output_speedup": 2, "internal_speedup": 2},
        {"routing": "yx", "output_queue_flits": 2, "link_cycles": 2, "latency_cycles": 3},
        {"routing_cycles": 0, "traversal_cycles": 0, "credit_cycles": 0},
        {"vc_allocation_cycles": 2, "switch_allocation_cycles": 3, "vcs": 1, "vc_depth": 1},
    ],
)
def test_parameters_reach_the_routers(parameters: dict[str, Any], mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=0.2, **QUICK, **parameters)
    for name, value in parameters.items():
        assert getattr(result, name, getattr(result.router, name, None)) == value
    assert result.packet_latency_cycles.mean != antiphon.noc(mesh, rate=0.2, **QUICK).packet_latency_cycles.mean


@pytest.mark.parametrize("pattern", antiphon.traffic_patterns())
def test_every_pattern_runs(pattern: str, mesh: Fabric) -> None:
    assert antiphon.noc(mesh, pattern, 0.05, **QUICK).traffic == pattern


def test_beyond_saturation(mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=1.0)
    assert not result.stable
    assert result.packets > 0
    assert result.packet_latency_cycles.half_width is None
    assert 0.3 < result.accepted_flits_per_node_cycle < 0.9


def test_saturation() -> None:
    ring = Fabric("ring:4")
    parameters: dict[str, Any] = {"vcs": 2, "packet_flits": 2, "warm_up_cycles": 2000, "cycles": 10_000}
    found = antiphon.noc_saturation(ring, "tornado", **parameters)
    assert found.stable.stable
    assert found.unstable_rate is not None
    assert found.stable.rate < found.unstable_rate <= found.stable.rate / 0.99
    assert not antiphon.noc(ring, "tornado", found.unstable_rate, **parameters).stable
    assert found.stable.accepted_flits_per_node_cycle == pytest.approx(found.stable.rate, rel=0.03)


def test_saturation_with_short_windows_stays_below_capacity(mesh: Fabric) -> None:
    # Every packet of a row crosses its middle, and the middle link carries one flit a cycle: 1 / 2.
    found = antiphon.noc_saturation(mesh, "bit-complement", warm_up_cycles=0, cycles=500)
    assert 0.35 < found.stable.rate <= 0.5


def test_deadlock_is_named() -> None:
    with pytest.raises(AntiphonError, match=r"deadlock at rate 0.5, found in cycle .* waits for ") as caught:
        antiphon.noc(Fabric("ring:8"), "tornado", 0.5, packet_flits=16, vcs=1, vc_depth=1, routing="minimal")
    assert caught.value.code == "stalled"


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("packet_flits", 1, 1 << 16),
        ("link_cycles", 1, 1 << 20),
        ("latency_cycles", 0, 1 << 20),
        ("warm_up_cycles", 0, 1 << 30),
        ("cycles", 1, 1 << 30),
    ],
)
def test_ranges_are_those_that_messages_name(name: str, least: int, most: int, mesh: Fabric) -> None:
    for wrong in (least - 1, -5, most + 1, 1 << 64):
        parameters: dict[str, Any] = {name: wrong}
        with pytest.raises(AntiphonError, match=f"{name}={wrong}; expected a whole number from {least} to {most}"):
            antiphon.noc(mesh, **parameters)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"rate": 0}, "bad-size"),
        ({"rate": -0.1}, "bad-size"),
        ({"rate": 1.5}, "bad-size"),
        ({"rate": float("nan")}, "bad-size"),
        ({"rate": 10**400}, "bad-size"),
        ({"rate": 1e-30}, "bad-size"),
        ({"rate": "x"}, "bad-size"),
        ({"packet_flits": 0}, "bad-size"),
        ({"packet_flits": 10**30}, "bad-size"),
        ({"vcs": -1}, "bad-size"),
        ({"vcs": 257}, "bad-size"),
        ({"vcs": 2**32}, "bad-size"),
        ({"vcs": 10**5000}, "bad-size"),
        ({"vcs": 1.5}, "bad-size"),
        ({"vc_depth": 0}, "bad-size"),
        ({"seed": -1}, "bad-size"),
        ({"seed": 2**64}, "bad-size"),
        ({"iterations": 2**40}, "bad-size"),
        ({"vc_allocation_cycles": 0}, "bad-size"),
        ({"output_queue_flits": 0}, "bad-size"),
        ({"link_cycles": 0}, "bad-size"),
        ({"latency_cycles": 2**31}, "bad-size"),
        ({"cycles": 0}, "bad-size"),
        ({"cycles": -5}, "bad-size"),
        ({"cycles": 2**63}, "bad-size"),
        ({"warm_up_cycles": -5}, "bad-size"),
        ({"switching": "cut-through", "packet_flits": 9}, "bad-size"),
        ({"switching": "store"}, "unknown-name"),
        ({"allocator": "islp"}, "unknown-name"),
        ({"routing": "zigzag"}, "unknown-name"),
        ({"traffic": "uniforme"}, "unknown-name"),
        ({"traffic": "hotspot:rank=16"}, "bad-spec"),
        ({"traffic": "tornado:x=1"}, "bad-spec"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], code: str, mesh: Fabric) -> None:
    with pytest.raises(AntiphonError) as caught:
        antiphon.noc(mesh, **parameters)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [
        ("switch:4", {"routing": "xy"}),
        ("torus:4x4", {"vcs": 1}),
        ("mesh:2x4", {"traffic": "transpose"}),
        ("ring:5", {"traffic": "shuffle"}),
    ],
)
def test_not_applicable(spec: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(AntiphonError) as caught:
        antiphon.noc(Fabric(spec), **parameters)
    assert caught.value.code == "not-applicable"


def test_progress_can_end_a_run() -> None:
    class Enough(Exception):
        pass

    shares = []

    def progress(share: float) -> None:
        shares.append(share)
        if len(shares) == 2:
            raise Enough

    with pytest.raises(Enough):
        antiphon.noc(Fabric("mesh:16x16"), rate=0.15, progress=progress)
    assert 0 <= shares[0] <= shares[1] <= 1


def test_command(commands: Any) -> None:
    command = "mesh:4x4 --traffic uniform --rate 0.3 --packet-flits 1 --vcs 4 --vc-depth 8"
    answer = commands.document("noc", *command.split())
    (run,) = answer["runs"]
    check_run(run)
    assert (answer["traffic"], answer["unstable_rate"]) == ("uniform", None)
    assert (run["fabric"], run["rate"], run["stable"]) == ("mesh:4x4", 0.3, True)
    printed = commands.invoke("noc", *command.split()).stdout
    assert "uniform traffic on mesh:4x4" in printed
    assert "saturated" not in printed


def test_several_rates(commands: Any) -> None:
    arguments = ("mesh:4x4", "--rate", "0.1,0.2", "--rate", "0.9", "--warm-up-cycles", "500", "--cycles", "2000")
    answer = commands.document("noc", *arguments)
    assert [run["rate"] for run in answer["runs"]] == [0.1, 0.2, 0.9]
    assert [run["stable"] for run in answer["runs"]] == [True, True, False]
    for run in answer["runs"]:
        check_run(run)
    printed = commands.invoke("noc", *arguments).stdout
    assert printed.count("saturated") == 2  # the row, and what it means


def test_saturation_command(commands: Any) -> None:
    arguments = ("ring:4", "--traffic", "neighbor", "--saturation", "--cycles", "2000", "--warm-up-cycles", "500")
    answer = commands.document("noc", *arguments)
    (run,) = answer["runs"]
    check_run(run)
    assert answer["unstable_rate"] is None or answer["unstable_rate"] > run["rate"]
    assert "Largest stable rate" in commands.invoke("noc", *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mesh:4x4", "--rate", "x"], "rate 'x' is not a number"),
        (["mesh:4x4", "--rate", ","], "rate '' is not a number"),
        (["mesh:4x4", "--rate", "2"], "at most 1 flit"),
        (["mesh:4x4", "--rate", "inf"], "at most 1 flit"),
        (["mesh:4x4", "--saturation", "--rate", "0.1"], "either --rate or --saturation"),
        (["mesh:4x4", "--vcs", "-1"], "vcs=-1; expected a whole number from 1 to 256"),
        (["mesh:4x4", "--vcs", "9" * 40], "expected a whole number from 1 to 256"),
        (["mesh:4x4", "--vcs", "x"], "--vcs"),
        (["mesh:4x4", "--traffic", "unifrom"], "did you mean 'uniform'"),
        (["msh:4x4"], "did you mean 'mesh'"),
    ],
)
def test_bad_arguments(commands: Any, arguments: list[str], message: str) -> None:
    assert message in commands.refused("noc", *arguments)


def test_help_has_sections(commands: Any) -> None:
    printed = commands.invoke("noc", "--help").stdout
    assert printed.count("\n  --") <= 12
    assert "--credit-cycles" not in printed
    assert "--help all shows" in printed
    printed = commands.invoke("noc", "--help", "all").stdout
    for section in ("Options:", "Network:", "Routers:", "System:", "Ranks:", "Running:", "Output:"):
        assert f"\n{section}\n" in printed
    assert "--credit-cycles" in printed


def test_ctrl_c_ends_a_long_run(commands: Any) -> None:
    commands.interrupt("noc", "mesh:32x32", "--rate", "0.1")


@pytest.mark.parametrize("cycles", [0, -5])
def test_cycles_measured_are_at_least_one(mesh: Fabric, cycles: int) -> None:
    with pytest.raises(AntiphonError, match=f"cycles={cycles}; expected a whole number from 1 to .*"):
        antiphon.noc(mesh, cycles=cycles)
