"""Packet fidelity against a second simulator, to the picosecond, on small schedules of all kinds."""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

import numpy as np
import pytest
from oracle_packet import Simulator
from random_schedules import random_schedule, with_waits

import antiphon
from antiphon import Fabric, Schedule, System

# Its loops would take thrice the time.
pytestmark = pytest.mark.no_cover

FABRICS = ["ring:4", "mesh:3x3", "mesh:2x3,slow=0-1:0.5", "switch:5", "torus:3x3", "bigraph:2x2", "mesh:2x3@900/5ns"]
ALGORITHMS = ["ring", "direct", "multitree", "dbtree", "halving-doubling"]
SYSTEMS = {
    "tto": System("tto"),
    "generic": System("generic"),
    "tight": System("generic").with_(
        link_latency_ns=0,
        interfaces=2,
        interface_depth_packets=2,
        interface_virtual_channels=2,
        reduce_rate_gb_per_s=16,
    ),
    # Interfaces that have been handed all packets just when others have sent one: half a packet's time an issue.
    "tied": System("generic").with_(
        link_latency_ns=0,
        interfaces=2,
        interface_depth_packets=6,
        interface_virtual_channels=2,
        interface_issue_ns=83.2,
        fixed_size_packets=True,
    ),
    "turns": System("generic").with_(
        link_latency_ns=7,
        interface_depth_packets=2,
        interface_assignment="port",
        link_arbitration="round-robin",
        router_ejection="circuit",
    ),
    "cut-through": System("aries").with_(
        interface_depth_packets=3,
        interface_assignment="lowest-free",
        link_switching="cut-through",
    ),
}
ISSUES = [("links", "pipelined"), ("links", "stop-and-wait"), ("steps", "pipelined"), ("strict-steps", "pipelined")]


def links_of(fabric: Fabric, system: dict[str, Any]) -> tuple[list[tuple[int, int]], int]:
    """Ticks of a flit, and of the latency, of every link; and binary digits of a picosecond in them."""
    table, clock = fabric.links, system["clock_ps"]
    rates = [system["link_rate"] if np.isnan(rate) else round(rate * 10**9) for rate in table["rate_gb_per_s"]]
    rates = [rate * round(speed * 1000) // 1000 for rate, speed in zip(rates, table["speed"], strict=True)]
    latencies = [system["link_latency_ps"] if np.isnan(ns) else round(ns * 1000) for ns in table["latency_ns"]]
    flit = system["packet"]["flit_bytes"] * 10**12
    bits = 0 if clock or all(flit % rate == 0 for rate in rates) else 16
    unit = clock or 1
    times = [-(-(flit << bits) // (rate * unit)) * unit for rate in rates]
    return [(time, latency << bits) for time, latency in zip(times, latencies, strict=True)], bits


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 100))])
@pytest.mark.parametrize("system", SYSTEMS)
def test_random_schedules_with_waits(system: str, seed: int) -> None:
    random = Random(seed)
    choices: dict[str, list[Any]] = {
        "interfaces": [1, 2, 4],
        "interface_depth_packets": [1, 2, 5],
        "interface_virtual_channels": [1, 2, 3],
        "interface_issue_ns": [0, 1, 5.12, 83.2],
        "interface_assignment": ["lowest-free", "round-robin", "receiver", "port"],
        "packet_payload_bytes": [64, 128, 4096],
        "reduce_rate_gb_per_s": [None, 1, 25],
        "link_latency_ns": [0, 7, 20],
    }
    for _ in range(4):
        schedule = with_waits(random, random_schedule(random, elements=3000))
        platform = SYSTEMS[system].with_(**{key: random.choice(of) for key, of in choices.items()})
        assert_as_expected(schedule, platform)


def assert_as_expected(schedule: Schedule, platform: System) -> None:
    fabric, parameters = Fabric(schedule.fabric), json.loads(platform.to_json())
    links, bits = links_of(fabric, parameters)
    sources = [int(source) for source in fabric.links["from"]]
    result = antiphon.simulate(fabric, schedule, system=platform, fidelity="packet")
    expected = Simulator(json.loads(schedule.to_json()), links, sources, parameters, bits).run() >> bits
    assert round(result.time_ns * 1000) == expected


@pytest.mark.parametrize("large", [100_000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("spec", FABRICS)
def test_times_are_those_of_a_second_simulator(spec: str, system: str, large: int) -> None:
    fabric, platform, compared = Fabric(spec), SYSTEMS[system], 0
    for algorithm, (issue, pacing), size in itertools.product(ALGORITHMS, ISSUES, [5_000, large]):
        try:
            built = antiphon.build(fabric, algorithm, bytes=size, system=platform)
        except antiphon.AntiphonError:
            continue
        document = json.loads(built.to_json())
        document["endpoint"] |= {"issue": issue, "pacing": pacing}
        assert_as_expected(Schedule.from_json(json.dumps(document), fabric), platform)
        compared += 1
    assert compared >= 8


def test_a_message_waits_for_its_own_chunk() -> None:
    """Chunks overtake each other on two interfaces: as many chunks are not the same chunk."""
    fabric = Fabric("ring:5")
    document = json.loads(antiphon.build(fabric, "multitree", "broadcast", 262144, root=4).to_json())
    document["endpoint"] |= {"issue": "steps", "interfaces": 2}
    document["conflict_free"] = False
    schedule, system = Schedule.from_json(json.dumps(document), fabric), System("generic").with_(interface_issue_ns=0)
    assert antiphon.simulate(fabric, schedule, system, "packet").time_ns == 18_696.8
    assert_as_expected(schedule, system)
