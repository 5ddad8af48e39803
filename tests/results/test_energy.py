"""Energy of runs of every kind, and area."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.results import Energy
from antiphon.results.energy import PARTS

KEYS = [
    "total_j",
    "dynamic_j",
    "static_j",
    *(f"{part}_j" for part in PARTS),
    "average_power_w",
    "peak_power_w",
    "energy_delay_js",
    "lower_bound_j",
    "unknown",
    "system",
]
KNOWN: dict[str, Any] = {
    "energy_allocation_pj": 3,
    "energy_interface_pj_per_bit": 0.1,
    "static_link_mw": 1,
    "static_router_mw": 20,
    "static_interface_mw": 3,
    "static_endpoint_mw": 40,
}


def known(name: str, **parameters: Any) -> antiphon.System:
    """A preset with everything known."""
    return antiphon.System(name).with_(**KNOWN, **parameters)


def line(*links: Mapping[str, float]) -> antiphon.Fabric:
    """Ranks in a line, with these links."""
    joined = [{"from": number, "to": number + 1, **link} for number, link in enumerate(links)]
    file = {"schema": "antiphon-fabric/1", "nodes": [{} for _ in range(len(links) + 1)], "links": joined}
    return antiphon.Fabric.from_json(json.dumps(file))


def dynamic(energy: Energy | None) -> int:
    assert energy is not None
    return energy.dynamic_aj


def test_a_run_is_the_same_with_energy() -> None:
    schedule = antiphon.build("mesh:4x4", "combs", bytes="1MiB")
    plain = antiphon.simulate("mesh:4x4", schedule, known("tto"))
    result = antiphon.simulate("mesh:4x4", schedule, known("tto"), energy=True)
    energy = result.energy
    assert energy is not None
    assert plain.energy is None
    assert replace(result, energy=None) == plain
    assert energy.unknown == []
    assert energy.total_aj == energy.dynamic_aj + energy.static_aj
    assert energy.links["energy_j"].sum() == pytest.approx(energy.links_aj * 1e-18)
    assert energy.lower_bound_aj is not None
    assert 0 < energy.lower_bound_aj <= energy.total_aj
    # Links, routers, interfaces and what ranks have, over the time of the run.
    static_w = (48 * 1 + 16 * (20 + 3 + 40)) * 1e-3
    assert energy.static_aj * 1e-18 == pytest.approx(static_w * result.time_ns * 1e-9)
    assert known("tto").static_power_w(antiphon.Fabric("mesh:4x4")) == pytest.approx(static_w)
    assert energy.power["power_w"].min() >= static_w - 1e-6
    assert energy.peak_power_w == pytest.approx(energy.power["power_w"].max())
    assert energy.energy_delay_js == pytest.approx(energy.total_j * result.time_ns * 1e-9)
    assert repr(energy).startswith("<Energy: ")


def test_energy_does_not_depend_on_cores() -> None:
    one, two = (
        antiphon.compare("mesh:3x3", bytes="1MiB", algorithms="ring,combs,direct", energy=True, jobs=jobs)
        for jobs in (1, 2)
    )
    assert [run.energy for run in one] == [run.energy for run in two]


def test_documents_have_energy_where_it_is_asked_for(commands: Any) -> None:
    for command in (
        ("simulate", "ring:4", "ring", "--bytes", "1MiB"),
        ("compare", "ring:4", "--bytes", "1MiB", "--algorithms", "ring,direct"),
        ("tune", "ring:4", "--sizes", "1MiB", "--algorithms", "ring,direct"),
        ("noc", "ring:4", "--rate", "0.1,0.2", "--warm-up-cycles", "500", "--cycles", "500"),
        ("rails", "ring4@1000/20ns,sw8@800/700ns", "--scheduler", "baseline,themis"),
        ("train", "alexnet", "ring:4", "ring", "--against", "direct"),
    ):
        document = commands.document(*command, "--energy")
        entries = document.get("runs") or document.get("choices") or [document]
        for entry in entries:
            assert list(entry["energy"]) == KEYS, command
            energy = entry["energy"]
            assert energy["dynamic_j"] == pytest.approx(sum(energy[f"{part}_j"] for part in PARTS))
            assert energy["total_j"] == pytest.approx(energy["dynamic_j"] + energy["static_j"])
            assert energy["peak_power_w"] >= energy["average_power_w"] * (1 - 1e-9) > 0
        plain = commands.document(*command)
        assert all("energy" not in each for each in plain.get("runs") or plain.get("choices") or [plain])
        printed = commands.invoke(*command, "--energy").stdout
        assert "Unknown, counted as nothing: energy_allocation_pj" in printed
        if command[0] in ("simulate", "noc", "rails", "train"):
            assert "unknown" in printed  # static energy
            known = commands.invoke(*command, "--energy", "--set", "static_link_mw=0").stdout
            assert "unknown" not in known or command[0] != "simulate"


def test_the_least_energy_is_found() -> None:
    system = antiphon.System("generic").with_(static_router_mw=0)
    specs = ["ring", "direct", "halving-doubling"]
    by_time = antiphon.tune("fc:8", sizes="1KiB,16MiB", algorithms=specs, system=system, energy=True)
    for objective in ("energy", "edp"):
        tuning = antiphon.tune("fc:8", sizes="1KiB,16MiB", algorithms=specs, system=system, objective=objective)
        assert tuning.objective == tuning.to_dict()["objective"] == objective
        for choice, other in zip(tuning, by_time, strict=True):
            costs = [each.cost(objective) for each in choice.ranking]
            assert costs == sorted(costs)
            assert choice.best.cost(objective) <= other.best.cost(objective)
    assert list(by_time.table("ranking")) == ["bytes", "place", "algorithm", "time_ns", "energy_j", "bound_of"]
    with pytest.raises(antiphon.AntiphonError, match="no objective 'speed'; known: time, energy, edp"):
        antiphon.tune("ring:4", sizes="1KiB", objective="speed")


def test_an_iteration_takes_what_its_exchanges_take() -> None:
    mesh, system = antiphon.Fabric("mesh:2x2"), known("generic")
    training = antiphon.train("alexnet", mesh, "ring", system, overlap="layerwise", energy=True)
    energy, exchanges = training.energy, training.iteration.exchanges
    assert energy is not None
    parts = [
        antiphon.build(mesh, "ring", kind, int(size), system).dynamic_energy(mesh, system).dynamic_aj
        for kind, size in zip(exchanges["kind"].tolist(), exchanges["bytes"], strict=True)
    ]
    assert energy.dynamic_aj == sum(parts)
    static_w = system.static_power_w(mesh)
    assert energy.static_aj * 1e-18 == pytest.approx(static_w * training.iteration_ns * 1e-9)
    assert energy.power["power_w"].mean() == pytest.approx(energy.average_power_w, rel=1e-3)
    shared = antiphon.train("alexnet", mesh, "ring", system, overlap="layerwise", in_flight="shared", energy=True)
    assert dynamic(shared.energy) == energy.dynamic_aj
    several = antiphon.train("alexnet", mesh, "ring", system, overlap="layerwise", unroll=3, energy=True)
    assert dynamic(several.energy) == energy.dynamic_aj
    assert antiphon.train("alexnet", mesh, "ring", system).energy is None


def test_models_divided_over_ranks_exchange_in_all_groups() -> None:
    rails = "rails:ring4@1000/20ns,ring4@800/700ns"
    fabric = antiphon.Fabric.from_rails(rails.removeprefix("rails:"))
    system = antiphon.System("ideal").with_(flit_bytes=1, packet_payload_bytes="1GiB")
    how: dict[str, Any] = {"model_parallel": 4, "energy": True}
    on_rails = antiphon.train("transformer-1t", rails, "baseline", system, **how)
    on_fabric = antiphon.train("transformer-1t", fabric, "ring-bi", system, fidelity="alpha-beta", **how)
    assert dynamic(on_rails.energy) == pytest.approx(dynamic(on_fabric.energy), rel=0.01)


@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
@pytest.mark.parametrize(
    "topology", ["ring3@100/20ns", "ring4@1000/20ns,sw4@800/700ns", "fc4@1000/20ns,ring3@400/20ns"]
)
def test_stages_and_messages_take_the_same(topology: str, collective: str) -> None:
    system = antiphon.System("ideal").with_(flit_bytes=1, packet_payload_bytes="1GiB", energy_interface_pj_per_bit=0.1)
    run = antiphon.rails(topology, "12MiB", collective, "themis", chunks=8, energy=True, system=system)
    fabric, schedule = antiphon.rails_messages(topology, "12MiB", collective, "themis", chunks=8)
    messages = antiphon.simulate(fabric, schedule, system, energy=True).energy
    assert run.energy is not None
    assert messages is not None
    for part in PARTS:
        of = f"{part}_aj"
        assert getattr(run.energy, of) == pytest.approx(getattr(messages, of), rel=2e-3), part
    assert run.energy.lower_bound_aj is not None
    assert run.energy.lower_bound_aj <= run.energy.total_aj
    assert run.energy.links.height == run.dimensions.height


def test_switches_that_reduce_have_no_known_energy() -> None:
    with pytest.raises(antiphon.NotApplicable, match="not known of switches that reduce"):
        antiphon.rails("sw8@800/700ns", offload=True, energy=True)


def test_synthetic_traffic_by_hand() -> None:
    """Neighbours on a ring send single flits over one link and through two routers."""
    system = known("generic", energy_link_pj_per_bit=2, energy_buffer_pj_per_bit=0.5, energy_crossbar_pj_per_bit=0.25)
    given: dict[str, Any] = {"warm_up_cycles": 500, "cycles": 1000}
    result = antiphon.noc("ring:4", "neighbor", 0.2, energy=True, system=system, **given)
    energy = result.energy
    assert energy is not None
    bits = 64 * 8
    assert energy.links_aj == result.flit_hops * bits * 2_000_000
    # Those on their way at the end have passed one router, and entered but not left.
    assert energy.routers_aj / (bits * 750_000 + 3_000_000) == pytest.approx(2 * result.flit_hops, rel=0.01)
    assert energy.interfaces_aj / (bits * 100_000) == pytest.approx(2 * result.flit_hops, rel=0.01)
    unequal = line({}, {"energy_pj_per_bit": 3})
    with pytest.raises(antiphon.NotApplicable, match="energies or lengths of their own"):
        antiphon.noc(unequal, energy=True, **given)


def test_links_in_files_have_an_energy_and_a_length(tmp_path: Path) -> None:
    file = tmp_path / "pair.json"
    file.write_text(line({"energy_pj_per_bit": 3, "length_mm": 2.5}).to_json())
    fabric = antiphon.Fabric(f"file:{file}")
    assert antiphon.Fabric.from_json(fabric.to_json()) == antiphon.Fabric.from_json(file.read_text())
    schedule = antiphon.build(fabric, "direct", "broadcast", 4096)
    energy = schedule.dynamic_energy(fabric, antiphon.System("generic").with_(energy_wire_pj_per_bit_mm=0.5))
    # 64 flits and one of header.
    assert energy.links_aj == 65 * 64 * 8 * (3_000_000 + 1_250_000)
    for wrong, message in (
        ({"energy_pj_per_bit": -1}, "link energy -1 pJ/bit is not 0 nor between"),
        ({"length_mm": 1e7}, "link length 10000000 mm is not 0 nor between"),
    ):
        with pytest.raises(antiphon.AntiphonError, match=message):
            line(wrong)


def test_graphs_keep_energies_and_lengths() -> None:
    fabric = line({"energy_pj_per_bit": 3, "length_mm": 2.5}, {})
    assert fabric.links["energy_pj_per_bit"][:2].tolist() == [3, 3]
    assert math.isnan(fabric.links["length_mm"][2])
    graph = antiphon.to_networkx(fabric, energy="pj")
    assert antiphon.from_networkx(graph, energy="pj", name="json") == fabric
    assert antiphon.from_networkx(graph, name="json") != fabric


def test_equal_energy_is_decided_by_time() -> None:
    choice = antiphon.tune("torus:4x4", sizes="1MiB", objective="energy", algorithms="ring,hierarchical,ring-bi")[
        "1MiB"
    ]
    energies = [each.cost("energy") for each in choice.ranking]
    times = [each.time_ns for each in choice.ranking]
    assert len(set(energies)) == 1
    assert times == sorted(times)


def test_area_of_routers_and_engines(commands: Any) -> None:
    document = commands.document("area", "mesh:8x8", "--endpoint", "ace")
    assert document["ports"] == 5
    routers = [row for row in document["parts"] if row["part"].startswith("router-")]
    assert sum(row["count"] * row["area_um2"] for row in routers) * 1e-6 == pytest.approx(8.332864)
    engine = document["parts"][4:]
    assert sum(row["area_um2"] for row in engine) == 5_339_031
    assert sum(row["power_mw"] for row in engine) == pytest.approx(4_254.537)
    assert document["total_mm2"] == pytest.approx(8.332864 + 64 * 5.339031)
    assert antiphon.area("mesh:8x8").to_dict()["parts"][0]["power_mw"] is None
    assert "All together: 8.333 mm²" in commands.invoke("area", "mesh:8x8").stdout
    assert math.isnan(antiphon.area("mesh:8x8").parts["power_mw"][0])
    with pytest.raises(antiphon.NotApplicable, match="area is of a whole fabric"):
        antiphon.area(antiphon.Fabric("mesh:4x4").group([0, 1]))


def test_pages_draw_energy(tmp_path: Path, commands: Any) -> None:
    compared, trained = tmp_path / "compared.html", tmp_path / "trained.html"
    problem = ("--bytes", "1MiB", "--algorithms", "ring,ring-bi")
    commands.invoke("compare", "mesh:3x3", *problem, "--energy", "--report", str(compared))
    commands.invoke("train", "alexnet", "ring:4", "ring", "--against", "direct", "--energy", "--report", str(trained))
    for page in (compared, trained):
        text = page.read_text("utf-8")
        assert "Power over time" in text
        assert "mean, " in text
        assert "static_link_mw" in text
    assert "at least " in compared.read_text("utf-8")
    commands.invoke("compare", "mesh:3x3", *problem, "--report", str(compared))
    assert "Power over time" not in compared.read_text("utf-8")


def test_results_are_saved_with_energy(tmp_path: Path) -> None:
    run = antiphon.run("ring:4", antiphon.build("ring:4", "ring", bytes=4096), energy=True)
    run.save(tmp_path / "run.json")
    assert antiphon.Run.load(tmp_path / "run.json") == run
