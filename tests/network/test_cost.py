"""What a fabric costs to build, and what its wires do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import antiphon

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TORUS = "torus:4x4:pitch=2mm"


def message(fabric: str, to: int) -> tuple[float, float]:
    """Time in ps and energy of links in pJ of a packet of 64 bytes from node 0 to another."""
    pair = f"{fabric}[0,{to}]"
    schedule = antiphon.build(pair, "direct", collective="broadcast", bytes="64B")
    result = antiphon.simulate(pair, schedule, energy=True)
    assert result.energy is not None
    return result.time_ns * 1e3, result.energy.links_aj * 1e-6


@pytest.mark.parametrize(
    ("fabric", "lengths"),
    [(TORUS, {4: 2, 12: 6, 1: 2, 3: 6}), (f"{TORUS},folded", {4: 4, 12: 2, 1: 4, 3: 2})],
)
def test_a_message_pays_for_the_length_of_its_link(fabric: str, lengths: dict[int, int]) -> None:
    plain_ps, plain_pj = message("torus:4x4", 1)
    for to, length_mm in lengths.items():
        time_ps, energy_pj = message(fabric, to)
        assert time_ps - plain_ps == pytest.approx(round(6.67 * length_mm), abs=1e-6)
        # Two flits of 64 bytes, of which one is the header.
        assert energy_pj - plain_pj == pytest.approx(0.12109375 * 8 * 128 * length_mm)


@pytest.mark.parametrize(
    ("fabric", "inside", "across", "longer_mm"),
    [("packages:1x2:of=2x1:pitch=2mm,gap=3mm", 1, 2, 3), ("wafer:2x2:reticle=2x1,pitch=2mm", 2, 1, 0)],
)
def test_a_message_pays_for_the_border_that_it_crosses(fabric: str, inside: int, across: int, longer_mm: int) -> None:
    (near_ps, near_pj), (far_ps, far_pj) = (message(f"{fabric}@25/1ns/0.5pJ+25/3ns/2pJ", to) for to in (inside, across))
    assert far_ps - near_ps == pytest.approx(2000 + round(6.67 * longer_mm), abs=1e-6)
    assert near_pj == pytest.approx((0.5 + 0.12109375 * 2) * 8 * 128)
    assert far_pj == pytest.approx((2 + 0.12109375 * (2 + longer_mm)) * 8 * 128)


def test_a_bound_knows_the_wires() -> None:
    """A torus whose ranks differ by their wires: the bound of latency is that of the farthest."""
    for fabric in (TORUS, f"{TORUS},folded", "mesh:4x4:pitch=1m", "torus:4x4:pitch=1m"):
        for algorithm in ("ring", "optimal"):
            schedule = antiphon.build(fabric, algorithm, bytes="1KiB")
            result = antiphon.simulate(fabric, schedule, fidelity="alpha-beta")
            assert antiphon.lower_bound(fabric, bytes="1KiB", fidelity="alpha-beta").time_ns <= result.time_ns
    near, far = (antiphon.lower_bound(f"mesh:4x4:pitch={pitch}", bytes="64B").time_ns for pitch in ("1mm", "1m"))
    # Six links from corner to corner, each 999 mm longer.
    assert far - near == pytest.approx(6 * 6.663, abs=0.01)


def test_equal_input_and_output() -> None:
    """A butterfly has 14 links a chiplet, a mesh four: at equal I/O most of its lead is gone."""

    def gain(rate: str) -> float:
        """How many times as fast the butterfly is."""
        fabrics = (f"mesh:8x8{rate}", f"fbfly:8x8{rate}")
        mesh, butterfly = (
            antiphon.compare(each, bytes="64MiB", algorithms="combs", system="tto").best.time_ns for each in fabrics
        )
        return mesh / butterfly

    assert gain("@25") == pytest.approx(4.08, abs=0.005)
    assert gain(":io=100GB/s") == pytest.approx(1.19, abs=0.005)


def test_cost_by_hand(commands: Any) -> None:
    cost = antiphon.cost(f"{TORUS},io=100GB/s")
    assert cost.to_dict() | {"router_mm2": 0, "area_mm2": 0} == {
        "ports": 4,
        "link_gb_per_s": 25.0,
        "io_gb_per_s": 100.0,
        "links": 64,
        "wire_mm": 192.0,
        "longest_link_mm": 6.0,
        "bisection_gb_per_s": 200.0,
        "beachfront_mm": pytest.approx(200 / 224),
        "router_mm2": 0,
        "area_mm2": 0,
    }
    assert antiphon.cost("mesh:8x8", "aries").area_mm2 == pytest.approx(antiphon.area("mesh:8x8").total_mm2)
    document = commands.document("compare", f"{TORUS},io=100GB/s", "--bytes", "1KiB", "--algorithms", "ring")
    assert document["cost"] == cost.to_dict()
    assert commands.document("area", TORUS, "--system", "generic")["cost"]["wire_mm"] == 192


def test_comparisons_say_what_a_fabric_costs(commands: Any) -> None:
    small = ("--bytes", "1KiB", "--algorithms", "ring")
    said = commands.invoke("compare", TORUS, *small).stdout
    assert "64 links of 192 mm together, the longest 6 mm; 200 GB/s across the middle" in " ".join(said.split())
    assert "Cost:" not in commands.invoke("compare", "torus:4x4", *small).stdout
    several = commands.invoke("compare", "mesh:2x2", "ring:4:pitch=1mm", *small, "--format", "markdown").stdout
    assert "Ports" in several.split("The best on each fabric")[1]


@pytest.mark.parametrize("name", ["organic", "interposer"])
def test_technologies_are_files(name: str) -> None:
    path = str(EXAMPLES / "technology" / f"{name}.toml")
    cost = antiphon.cost(f"{TORUS},io=100GB/s", path)
    assert math.isclose(cost.beachfront_mm, 200 / {"organic": 224, "interposer": 1317}[name])
    schedule = antiphon.build(TORUS, "ring", bytes="1KiB", system=path)
    energy = antiphon.simulate(TORUS, schedule, path, energy=True).energy
    assert energy is not None
    assert energy.links_aj > 0
