"""The flit-level network under synthetic traffic: API, command, contract of its JSON, bad input."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from records import has_keys

import antiphon
from antiphon import AntiphonError, Fabric

QUICK: dict[str, Any] = {"warm_up_cycles": 500, "cycles": 1000}
RUN_KEYS: dict[type, str] = {
    str: "fabric traffic routing",
    float: "rate accepted_flits_per_node_cycle hops_mean",
    int: "packet_flits link_cycles latency_cycles seed packets warm_up_cycles cycles flit_hops events",
    dict: "router packet_latency_cycles network_latency_cycles",
    bool: "stable",
}


@pytest.fixture(scope="module")
def mesh() -> Fabric:
    return Fabric("mesh:4x4")


def check_run(run: dict[str, Any]) -> None:
    has_keys(run, RUN_KEYS)
    assert set(run["packet_latency_cycles"]) == {"mean", "half_width", "p50", "p99"}
    assert set(run["network_latency_cycles"]) == {"mean"}


def test_result_is_a_record(mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=0.2, **QUICK)
    assert pickle.loads(pickle.dumps(result)) == result == antiphon.noc(mesh, rate=0.2, **QUICK)
    assert result != antiphon.noc(mesh, rate=0.2, seed=2, **QUICK)
    assert (result.router.vcs, result.router.output_queue_flits, result.routing) == (4, None, "xy")
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
        *({"traffic": pattern} for pattern in antiphon.traffic_patterns() if pattern != "uniform"),
    ],
)
def test_parameters_reach_the_network(parameters: dict[str, Any], mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=0.2, **QUICK, **parameters)
    for name, value in parameters.items():
        assert getattr(result, name, getattr(result.router, name, None)) == value
    assert result.packet_latency_cycles.mean != antiphon.noc(mesh, rate=0.2, **QUICK).packet_latency_cycles.mean


def test_beyond_saturation(mesh: Fabric) -> None:
    result = antiphon.noc(mesh, rate=1.0)
    assert not result.stable
    assert result.packets > 0
    assert result.packet_latency_cycles.half_width is None
    with pytest.raises(AntiphonError, match=r"deadlock at rate 0.5, found in cycle .* waits for ") as caught:
        antiphon.noc(Fabric("ring:8"), "tornado", 0.5, packet_flits=16, vcs=1, vc_depth=1, routing="minimal")
    assert caught.value.code == "stalled"


def test_saturation(mesh: Fabric) -> None:
    ring = Fabric("ring:4")
    parameters: dict[str, Any] = {"vcs": 2, "packet_flits": 2, "warm_up_cycles": 2000, "cycles": 10_000}
    found = antiphon.noc_saturation(ring, "tornado", **parameters)
    assert found.stable.stable
    assert found.unstable_rate is not None
    assert found.stable.rate < found.unstable_rate <= found.stable.rate / 0.99
    assert not antiphon.noc(ring, "tornado", found.unstable_rate, **parameters).stable
    # With short windows, too: every packet of a row crosses its middle link, which carries one flit a cycle, 1 / 2.
    short = antiphon.noc_saturation(mesh, "bit-complement", warm_up_cycles=0, cycles=500)
    assert 0.35 < short.stable.rate <= 0.5


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
    for wrong in (least - 1, -5, most + 1, 1 << 64, 10**30):
        parameters: dict[str, Any] = {name: wrong}
        with pytest.raises(AntiphonError, match=f"{name}={wrong}; expected a whole number from {least} to {most}"):
            antiphon.noc(mesh, **parameters)


BAD: dict[str, list[dict[str, Any]]] = {
    "bad-size": [
        *({"rate": rate} for rate in (0, -0.1, 1.5, float("nan"), 10**400, 1e-30, "x")),
        *({"vcs": vcs} for vcs in (-1, 257, 2**32, 10**5000, 1.5)),
        *({"seed": seed} for seed in (-1, 2**64)),
        {"vc_depth": 0},
        {"iterations": 2**40},
        {"vc_allocation_cycles": 0},
        {"output_queue_flits": 0},
        {"switching": "cut-through", "packet_flits": 9},
    ],
    "unknown-name": [{"switching": "store"}, {"allocator": "islp"}, {"routing": "zigzag"}, {"traffic": "uniforme"}],
    "bad-spec": [{"traffic": "hotspot:rank=16"}, {"traffic": "tornado:x=1"}],
    "not-applicable": [
        {"fabric": "switch:4", "routing": "xy"},
        {"fabric": "torus:4x4", "vcs": 1},
        {"fabric": "mesh:2x4", "traffic": "transpose"},
        {"fabric": "ring:5", "traffic": "shuffle"},
    ],
}


@pytest.mark.parametrize(("code", "parameters"), [(code, each) for code, several in BAD.items() for each in several])
def test_bad_parameters(code: str, parameters: dict[str, Any], mesh: Fabric) -> None:
    given: dict[str, Any] = {"fabric": mesh} | parameters
    with pytest.raises(AntiphonError) as caught:
        antiphon.noc(**given)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_progress_can_end_a_run() -> None:
    shares = []

    def progress(share: float) -> None:
        shares.append(share)
        if len(shares) == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        antiphon.noc(Fabric("mesh:16x16"), rate=0.15, progress=progress)
    assert 0 <= shares[0] <= shares[1] <= 1


def test_commands(commands: Any) -> None:
    rates = ("mesh:4x4", "--rate", "0.1,0.2", "--rate", "0.9", "--warm-up-cycles", "500", "--cycles", "2000")
    answer = commands.document("noc", *rates)
    assert (answer["traffic"], answer["unstable_rate"]) == ("uniform", None)
    assert [(run["rate"], run["stable"]) for run in answer["runs"]] == [(0.1, True), (0.2, True), (0.9, False)]
    printed = commands.invoke("noc", *rates).stdout
    assert "uniform traffic on mesh:4x4" in printed
    assert printed.count("saturated") == 2  # the row, and what it means
    saturation = ("ring:4", "--traffic", "neighbor", "--saturation", "--cycles", "2000", "--warm-up-cycles", "500")
    found = commands.document("noc", *saturation)
    assert found["unstable_rate"] is None or found["unstable_rate"] > found["runs"][0]["rate"]
    assert "Largest stable rate" in commands.invoke("noc", *saturation).stdout
    for run in answer["runs"] + found["runs"]:
        check_run(run)


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


def test_help_shows_what_people_use_and_the_rest_by_section(commands: Any) -> None:
    printed = commands.invoke("noc", "--help").stdout
    assert printed.count("\n  --") <= 12
    assert "--credit-cycles" not in printed
    assert "--help all shows" in printed
    printed = commands.invoke("noc", "--help", "all").stdout
    for section in ("Options", "Network", "Routers", "System", "Ranks", "Running", "Output"):
        assert f"\n{section}:\n" in printed
    assert "--credit-cycles" in printed


def test_ctrl_c_ends_a_long_run(commands: Any) -> None:
    commands.interrupt("noc", "mesh:32x32", "--rate", "0.1")
