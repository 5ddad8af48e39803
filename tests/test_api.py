"""The Python package: objects, builder, results, foreign graphs, errors."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import json
import pickle
import re
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import MemberDescriptorType, ModuleType
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import antiphon
from antiphon import AntiphonError, Fabric, Schedule, ScheduleBuilder, System, _core

ROOT = Path(__file__).resolve().parent.parent
SMALL = "64KiB"


@pytest.fixture(scope="module")
def mesh() -> Fabric:
    return Fabric("mesh:4x4")


@pytest.fixture(scope="module")
def result(mesh: Fabric) -> antiphon.SimulationResult:
    return antiphon.simulate(mesh, antiphon.build(mesh, "ring", bytes=SMALL))


def test_every_error_code_is_documented() -> None:
    core = (ROOT / "crates" / "base" / "src" / "error.rs").read_text("utf-8")
    codes = set(re.findall(r'Code::\w+ => "([a-z-]+)"', core))
    for file in (ROOT / "python" / "antiphon").rglob("*.py"):
        codes |= set(re.findall(r'AntiphonError\([^()]*(?:\([^()]*\))?[^()]*, "([a-z-]+)"\)', file.read_text("utf-8")))
    for file in (ROOT / "crates" / "py" / "src").glob("*.rs"):
        codes |= set(re.findall(r'exception\(.*, "([a-z-]+)"\)', file.read_text("utf-8")))
    assert {"bad-size", "missing-extra", "internal"} <= codes
    assert codes == set(re.findall(r"``([a-z-]+)``", antiphon.AntiphonError.__doc__ or ""))


def test_kinds_of_errors() -> None:
    mesh = Fabric("mesh:3x3")
    for kind, work in (
        (antiphon.InputError, lambda: Fabric("mehs:3x3")),
        (antiphon.InputError, lambda: antiphon.compare(mesh, bytes=0)),
        (antiphon.FileError, lambda: Fabric("file:none.json")),
        (antiphon.NotApplicable, lambda: antiphon.build(mesh, "ring-bi")),
        (antiphon.TooLarge, lambda: Fabric("mesh:9999x9999")),
    ):
        with pytest.raises(kind) as caught:
            work()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value)
        assert (again.message, again.code) == (caught.value.message, caught.value.code)
        assert isinstance(caught.value, AntiphonError)
    assert type(AntiphonError("a", "internal")) is AntiphonError


def ring(fabric: Fabric, size: int | str) -> Schedule:
    schedule = runpy.run_path(str(ROOT / "examples" / "custom_algorithm.py"))["ring"](fabric, size)
    assert isinstance(schedule, Schedule)
    return schedule


@pytest.mark.parametrize("spec", ["mesh:4x4", "switch:4", "dgx1v@50", "mesh:3x3,drop=0-1", "mesh:3x3,slow=0-1:0.5"])
def test_fabrics_survive_pickling(spec: str) -> None:
    fabric = Fabric(spec)
    assert pickle.loads(pickle.dumps(fabric)) == fabric
    assert fabric != Fabric("ring:5")
    assert spec in repr(fabric)


def test_machines_have_rates_of_their_own() -> None:
    fabric = Fabric("dgx-h100:2")
    assert fabric.dimensions["shape"].tolist() == ["switch", "switch"]
    assert fabric.dimensions["size"].tolist() == [8, 2]
    assert fabric.dimensions["rate_gb_per_s"].tolist() == [450, 50]
    assert [str(name) for name in fabric.nodes["name"]][7:9] == ["gpu0.7", "gpu1.0"]
    boxes = fabric.groups("dimension=0")
    assert [group.members for group in boxes] == [list(range(8)), list(range(8, 16))]
    usable = Fabric("dgx-h100:2@370.8/1us+48")
    assert usable.dimensions["rate_gb_per_s"].tolist() == [370.8, 48]
    assert usable.dimensions["latency_ns"].tolist() == [2000, 1400]
    with pytest.raises(AntiphonError, match=r"1 rate for 2 kinds of links \(nvlink, rail\)"):
        Fabric("dgx-h100:2@400")


def test_expanded_rails_are_fabrics() -> None:
    fabric = Fabric.from_rails("ring4@2000/20ns,sw4@800/700ns")
    assert fabric == antiphon.rails_messages("ring4@2000/20ns,sw4@800/700ns", chunks=1)[0]
    assert pickle.loads(pickle.dumps(fabric)) == fabric
    assert fabric.name == "rails:ring4@2000/20ns,sw4@800/700ns"
    rings = Fabric.from_rails("ring4@2000/20ns,fc3@800/700ns")
    assert antiphon.verify(rings, antiphon.build(rings, "combs", bytes=SMALL)).complete
    with pytest.raises(AntiphonError, match="did you mean 'ring'"):
        Fabric.from_rails("rng4@1/1ns")


def test_dimensions() -> None:
    torus = Fabric("torus:4x2@200/90ns+25,slow=0-1:0.5").dimensions
    assert torus["shape"].tolist() == ["ring", "ring"]
    assert torus["size"].tolist() == [4, 2]
    assert torus["rate_gb_per_s"].tolist() == [200, 25]
    assert torus["latency_ns"][0] == 90
    assert np.isnan(torus["latency_ns"][1])
    assert Fabric("switch:8@10/1ns").dimensions["latency_ns"].tolist() == [2]
    rails = Fabric.from_rails("fc5@800/20ns,sw8@800/700ns").dimensions
    assert rails["shape"].tolist() == ["clique", "switch"]
    assert rails["rate_gb_per_s"].tolist() == [25, 100]
    for spec in ("dgx1v", "bigraph:2", "mesh:3x3,drop=0-1"):
        assert len(Fabric(spec).dimensions["size"]) == 0


def test_other_objects_survive_pickling(mesh: Fabric, result: antiphon.SimulationResult) -> None:
    schedule = antiphon.build(mesh, "ring", bytes=SMALL)
    objects: list[Any] = [
        schedule,
        schedule.stats(mesh),
        result,
        System("tto").with_(link_rate_gb_per_s=50),
        antiphon.lower_bound(mesh),
        antiphon.compare(mesh, bytes=SMALL, algorithms=["ring", "ring-2d"]),
        AntiphonError("what is wrong", "bad-spec"),
    ]
    for value in objects:
        again = pickle.loads(pickle.dumps(value))
        assert str(again) == str(value) if isinstance(value, AntiphonError) else again == value
        assert repr(again) == repr(value)


def test_equal_objects_have_one_hash(mesh: Fabric) -> None:
    def schedule() -> Schedule:
        return antiphon.build(mesh, "ring", bytes=SMALL)

    pairs: list[tuple[Any, Any]] = [
        (mesh, Fabric("mesh:4x4")),
        (schedule(), schedule()),
        (System("tto").with_(interfaces=2), System("tto").with_(interfaces=2)),
        (antiphon.Workload("resnet50"), antiphon.Workload("resnet50")),
    ]
    for one, other in pairs:
        assert one is not other
        assert len({one, other}) == 1
    assert len({mesh, Fabric("mesh:4x4,drop=0-1"), Fabric("ring:16")}) == 3


def test_fabric_tables(mesh: Fabric) -> None:
    assert mesh.name == "mesh:4x4"
    assert mesh.ranks == 16
    assert mesh.nodes["rank"].tolist() == list(range(16))
    assert mesh.nodes["coord_0"].tolist()[:5] == [0, 0, 0, 0, 1]
    assert len(mesh.links["from"]) == 48
    assert np.isnan(mesh.links["rate_gb_per_s"]).all()
    assert set(mesh.links["dimension"]) == {"x", "y"}
    assert Fabric("switch:4").nodes["rank"].tolist().count(-1) == 1
    assert Fabric("ring:4@50/20ns").links["latency_ns"].tolist() == [20.0] * 8


def test_other_threads_go_on_while_json_is_written() -> None:
    schedule = antiphon.build("mesh:20x20", "multitree", bytes=SMALL)
    thread = threading.Thread(target=schedule.to_json)
    turns = 0
    thread.start()
    while thread.is_alive():
        turns += 1
        thread.join(0.005)
    assert turns > 5


def test_fabric_json_round_trip() -> None:
    fabric = Fabric("mesh:3x3,exclude=4")
    again = Fabric.from_json(fabric.to_json(), fabric.name)
    assert again == fabric
    with pytest.raises(AntiphonError, match="fabric 'mine'") as caught:
        Fabric.from_json("{", "mine")
    assert caught.value.code == "bad-file"


def test_systems() -> None:
    system = System("tto")
    assert system.packet_payload_bytes == 8192
    changed = system.with_(
        name="mine", link_latency_ns=5, packet_payload_bytes="4KiB", reduce_rate_gb_per_s=float("inf")
    )
    assert (changed.name, changed.link_latency_ns, changed.packet_payload_bytes) == ("mine", 5, 4096)
    assert changed.reduce_rate_gb_per_s == float("inf")
    assert changed != system
    assert System.from_json(changed.to_json()) == changed
    for wrong in (0, -1, float("nan"), float("inf"), 1e30):
        with pytest.raises(AntiphonError, match="link_rate_gb_per_s"):
            system.with_(link_rate_gb_per_s=wrong)
    for change in (
        {"interfaces": 0},
        {"header_flits": 10**6},
        {"flit_bytes": "1TiB"},
        {"interface_virtual_channels": 0},
    ):
        with pytest.raises(AntiphonError, match="expected"):
            system.with_(**change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AntiphonError, match="flit_bytes=0; expected a size") as caught:
        System.from_json(system.to_json().replace('"flit_bytes":512', '"flit_bytes":0'))
    assert caught.value.code == "bad-size"
    with pytest.raises(AntiphonError, match="did you mean 'tto'"):
        System("tt0")


def test_every_parameter_is_an_argument_and_a_property() -> None:
    system = System("tto")
    for parameter in system.parameters():
        value: Any = getattr(system, parameter.key)
        default: Any = parameter.default
        assert System().with_(**{parameter.key: value}) == System().with_(**{parameter.key: default})
        assert getattr(System().with_(**{parameter.key: value}), parameter.key) == value
        assert system.with_(**{parameter.key: None}) == system  # pyright: ignore[reportArgumentType]
        assert getattr(System, parameter.key).__doc__ == parameter.meaning
        limit: Any
        for limit in (parameter.least, parameter.most):
            if limit is not None:
                assert getattr(system.with_(**{parameter.key: limit}), parameter.key) == pytest.approx(limit)
        wrong: Any
        for wrong in ([], 10**5000, float("nan"), -1, "nothing"):
            with pytest.raises(AntiphonError, match=parameter.key) as caught:
                system.with_(**{parameter.key: wrong})  # pyright: ignore[reportArgumentType]
            assert caught.value.code in ("bad-size", "bad-spec", "unknown-name")
            assert len(str(caught.value)) < 300
    defaults: dict[str, Any] = {each.key: each.default for each in system.parameters()}
    assert system.with_(**defaults) == system
    with pytest.raises(AntiphonError, match="no parameter 'interface'; did you mean 'interfaces'") as caught:
        system.with_(interface=4)  # type: ignore[call-arg]
    assert caught.value.code == "unknown-name"
    for flag in (1, "true", 0.0):
        with pytest.raises(AntiphonError, match="expected yes or no"):
            system.with_(fixed_size_packets=flag)  # type: ignore[arg-type]
    rate: Any = np.float32(2)
    assert system.with_(interfaces=np.int32(3), link_rate_gb_per_s=rate).interfaces == 3
    with pytest.raises(AntiphonError, match="interfaces=True"):
        system.with_(interfaces=True)


def test_options_are_declared() -> None:
    options = {algorithm.name: {each.key: each for each in algorithm.options} for algorithm in antiphon.algorithms()}
    chunk = options["tto"]["chunk"]
    assert (chunk.kind, chunk.default, chunk.least, chunk.most) == ("bytes", "96KiB", 1, 2**50)
    assert options["ring-2d"]["dependencies"].choices == ("complete", "held")
    mesh = Fabric("mesh:4x4")
    for name, known in options.items():
        for each in known.values():
            assert each.meaning[0].isupper()
            assert each.meaning.endswith(".")
            # What holds by default may be given, and changes nothing.
            if " " not in each.default:
                for fabric in (mesh, Fabric("mesh:3x3"), Fabric("bigraph:2x2")):
                    try:
                        plain = antiphon.build(fabric, name, bytes=SMALL)
                    except AntiphonError:
                        continue
                    given = antiphon.build(fabric, f"{name}:{each.key}={each.default}", bytes=SMALL)
                    assert given.to_json() == plain.to_json().replace(f'"{name}"', f'"{given.algorithm}"')
            with pytest.raises(AntiphonError, match=f"{name}: {each.key}"):
                antiphon.build(mesh, f"{name}:{each.key}=no such value", bytes=SMALL)


@pytest.mark.parametrize(("size", "count"), [(5, 5), ("64MiB", 2**26), ("375kB", 375_000), (np.int64(7), 7)])
def test_sizes(size: Any, count: int) -> None:
    assert antiphon.parse_bytes(size) == count


@pytest.mark.parametrize(
    "size",
    [0, -1, 1.5, "1.5", "", "0", "-3", "1e9", 2**64, 10**400, 10**5000, None, "9999TiB", "x" * 999],
    ids=range(14),
)
def test_bad_sizes(size: Any) -> None:
    with pytest.raises(AntiphonError) as caught:
        antiphon.parse_bytes(size)
    assert caught.value.code == "bad-size"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.integers(1, 2**50))
def test_formatted_sizes_parse_back(count: int) -> None:
    assert antiphon.parse_bytes(antiphon.format_bytes(count)) == count


def test_result_tables(mesh: Fabric, result: antiphon.SimulationResult) -> None:
    links, ranks = result.links, result.ranks
    assert all(len(column) == 48 for column in links.values())
    assert all(len(column) == 16 for column in ranks.values())
    assert result.time_ns == pytest.approx(ranks["finish_ns"].max())
    assert result.link_utilization_mean == pytest.approx(links["utilization"].mean())
    assert result.first_chunk_ns <= result.last_chunk_ns <= result.time_ns
    assert result.packet_hops == links["packets"].sum()
    assert (np.diff(result.timeline["start_ns"]) > 0).all()
    assert ((result.timeline["utilization"] >= 0) & (result.timeline["utilization"] <= 1)).all()
    assert result.proof.complete
    frame = result.links_frame()
    assert list(frame.columns) == list(links)
    assert frame.index.name == "link"
    for other in (result.ranks_frame(), result.chunks_frame(), result.timeline_frame()):
        assert len(other)


def test_without_pandas(result: antiphon.SimulationResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AntiphonError, match="need pandas"):
        result.links_frame()


def test_runs_repeat_exactly(mesh: Fabric) -> None:
    assert antiphon.compare(mesh, bytes=SMALL) == antiphon.compare(mesh, bytes=SMALL)


def test_comparison(mesh: Fabric) -> None:
    comparison = antiphon.compare(mesh, bytes=SMALL)
    assert {run.algorithm for run in comparison.runs} | {r.algorithm for r in comparison.refused} == {
        algorithm.name for algorithm in antiphon.algorithms()
    }
    order = [(run.bound_of != "all-ranks", run.time_ns) for run in comparison.runs]
    assert order == sorted(order)
    for run in comparison.runs:
        assert run.result.proof.complete
        assert run.efficiency is not None
        assert 0 < run.efficiency <= 1
        assert run.bus_bandwidth_gb_per_s >= run.algorithm_bandwidth_gb_per_s


def test_algorithms_as_text(mesh: Fabric) -> None:
    listed = antiphon.compare(mesh, bytes=SMALL, algorithms=["ring", "tto:chunk=32KiB,barrier=no"])
    assert antiphon.compare(mesh, bytes=SMALL, algorithms="ring,tto:chunk=32KiB,barrier=no") == listed


def test_refusals_and_mistakes_differ() -> None:
    comparison = antiphon.compare(Fabric("switch:6"), bytes=SMALL, algorithms=["ring", "tto"])
    assert [refusal.algorithm for refusal in comparison.refused] == ["tto"]
    with pytest.raises(AntiphonError, match="did you mean 'ring'") as caught:
        antiphon.compare(Fabric("switch:6"), bytes=SMALL, algorithms=["rign"])
    assert caught.value.code == "unknown-name"


def test_progress_can_stop_a_run() -> None:
    class Enough(Exception):
        pass

    def stop(share: float) -> None:
        assert 0 <= share <= 1
        raise Enough

    # Nothing recurs in it that could be skipped.
    large = Fabric("mesh:8x8")
    schedule = antiphon.build(large, "dbtree", bytes="4GiB")
    with pytest.raises(Enough):
        antiphon.simulate(large, schedule, progress=stop)


def test_builder_makes_what_the_core_makes() -> None:
    fabric = Fabric("ring:8")
    mine, theirs = ring(fabric, "1MiB"), antiphon.build(fabric, "ring", bytes="1MiB")
    assert mine.stats(fabric).steps == theirs.stats(fabric).steps == 14
    assert Schedule.from_json(mine.to_json(), fabric) == mine


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("seed", [None, 1])
def test_execution(dtype: Any, seed: int | None) -> None:
    schedule = ring(Fabric("ring:5"), 40 * np.dtype(dtype).itemsize)
    buffers = [np.arange(40, dtype=dtype) * rank for rank in range(5)]
    for buffer in schedule.execute(buffers, seed):
        assert buffer.dtype == dtype
        assert buffer.tolist() == (np.arange(40) * 10).tolist()
    assert buffers[1].tolist() == list(range(40)), "the given arrays are not changed"


def test_execution_of_wrong_buffers() -> None:
    schedule = ring(Fabric("ring:3"), 48)
    good = np.zeros(12, np.float32)
    for buffers in (
        [good, good],
        [good] * 4,
        [good[:5]] * 3,
        [good, good, np.zeros(12)],
        [1, 2, 3],
        None,
        [good > 0] * 3,
    ):
        with pytest.raises(AntiphonError) as caught:
            schedule.execute(buffers)  # type: ignore[arg-type]
        assert caught.value.code in ("bad-spec", "bad-size")


def test_builder_mistakes() -> None:
    fabric = Fabric("ring:4")

    def builder() -> ScheduleBuilder:
        return ScheduleBuilder(fabric, "broadcast", 400, root=1)

    with pytest.raises(AntiphonError, match="no transfers"):
        builder().finish()
    nobody = builder()
    nobody.reduce(0, 9, nobody.lane(0, 400), 0)
    with pytest.raises(AntiphonError, match=r"ranks are 0 to 3"):
        nobody.finish()
    nothing = builder()
    nothing.copy(0, 1, 3, 0)
    with pytest.raises(AntiphonError, match="lane 3 of 0"):
        nothing.finish()
    outside = builder()
    outside.copy(0, 1, outside.lane(300, 101), 0)
    with pytest.raises(AntiphonError, match="past the end"):
        outside.finish()
    with pytest.raises(AntiphonError, match="root 9"):
        ScheduleBuilder(fabric, "broadcast", 400, root=9)


def test_messages_keep_the_numbers_that_the_builder_returned() -> None:
    """Added in another order than they are served in; a counter-example says where the data stays."""
    builder = ScheduleBuilder("ring:4", "broadcast", 400)
    lane = builder.lane(0, 400)
    last = builder.copy(1, 2, lane, 1)
    first = builder.copy(0, 1, lane, 0)
    builder.copy(0, 3, lane, 0)
    schedule = builder.finish()
    assert (last, first) == (0, 1)
    assert schedule.transfers["from"].tolist() == [1, 0, 0]
    assert schedule.verify(Fabric("ring:4")).complete
    builder = ScheduleBuilder("ring:4", "all-reduce", 400)
    lane = builder.lane(0, 400)
    for step, (rank, to) in enumerate([(3, 2), (2, 1), (1, 0)]):
        builder.reduce(rank, to, lane, 2 * step)
    late = builder.reduce(3, 0, builder.lane(400, 0), 9)
    early = builder.copy(0, 1, lane, 7)
    wrong = builder.copy(3, 2, lane, 8)
    with pytest.raises(AntiphonError) as caught:
        builder.finish().verify(Fabric("ring:4"))
    assert (late, early, wrong) == (3, 4, 5)
    assert "rank 2 ends without the contribution of ranks 0, 1, 2 in lane 0" in caught.value.message
    assert "last held by rank 1, after phase 'main' step 7 (transfer 4), and nobody sends it on" in caught.value.message


def test_a_schedule_is_proven_once() -> None:
    fabric = Fabric("mesh:12x12")
    schedule = antiphon.build(fabric, "ring", bytes="1MiB")

    def seconds(on: Fabric, of: Schedule) -> float:
        began = time.process_time()
        assert antiphon.verify(on, of).complete
        return time.process_time() - began

    # An equal fabric serves, an equal schedule is another one, as is any that was changed.
    first, again, equal = seconds(fabric, schedule), seconds(fabric, schedule), seconds(Fabric("mesh:12x12"), schedule)
    other = seconds(fabric, Schedule.from_json(schedule.to_json(), fabric))
    assert max(again, equal) < first / 4
    assert max(again, equal) < other / 4
    # Of another fabric nothing is known.
    with pytest.raises(AntiphonError):
        antiphon.verify(Fabric("ring:144"), schedule)


def test_nodes_by_name_and_place() -> None:
    boxes, mesh = Fabric("dgx-h100:2"), Fabric("mesh:3x4")
    names = boxes.nodes["name"].tolist()
    assert [names[node] for node in boxes.neighbors("gpu0.1")] == ["nvswitch0", "rail1"]
    link = boxes.link("gpu0.1", "rail1")
    assert (boxes.links["from"][link], boxes.links["to"][link]) == (1, names.index("rail1"))
    assert boxes.link(1, names.index("rail1")) == link
    assert sorted(mesh.neighbors(5)) == [1, 4, 6, 9]
    assert mesh.rank(2, 1) == 9
    assert Fabric("mesh:3x4[1,2,5,6]").rank(1, 0) == 2
    for wrong, message in (
        (lambda: boxes.neighbors("rial1"), "did you mean 'rail1'"),
        (lambda: boxes.link(0, 1), "no link from 0 to 1"),
        (lambda: mesh.neighbors(-1), "no node"),
        (lambda: mesh.rank(3, 0), "no position"),
        (lambda: mesh.rank(1), "no position"),
        (lambda: boxes.rank(0, 1, 2), "position|product"),
    ):
        with pytest.raises(AntiphonError, match=message):
            wrong()


@pytest.mark.parametrize("name", ["allreduce", "all_reduce", "all-reduce"])
def test_names_of_collectives(name: str) -> None:
    assert antiphon.build("ring:4", "ring", name, 4096).collective == "all-reduce"
    compared = antiphon.compare("ring:4", name, 4096, "ring")
    assert (compared.collective, len(compared.runs), compared.runs[0].collective) == ("all-reduce", 1, "all-reduce")
    assert antiphon.lower_bound("ring:4", name, 4096) == antiphon.lower_bound("ring:4", bytes=4096)
    assert antiphon.tune("ring:4", name, sizes=[4096], algorithms="ring").collective == "all-reduce"


def test_order_through_messages_of_other_lanes() -> None:
    """8 -> 17 -> 25 -> 32 orders what the dropped dependency did."""
    fabric = Fabric("switch:8")
    document = json.loads(antiphon.build(fabric, "nested-ring", "all-reduce", 60).to_json())
    document["transfers"][32]["start_after"].remove(8)
    assert Schedule.from_json(json.dumps(document), fabric).verify(fabric).complete


def test_incomplete_schedules_are_never_timed() -> None:
    fabric = Fabric("ring:4")
    builder = ScheduleBuilder(fabric, "broadcast", 400, root=1)
    builder.copy(1, 2, builder.lane(0, 400), 0)
    schedule = builder.finish()
    for attempt in (schedule.verify, lambda fabric: antiphon.simulate(fabric, schedule)):
        with pytest.raises(AntiphonError, match="rank") as caught:
            attempt(fabric)
        assert caught.value.code == "not-proven"


def test_schedule_of_another_fabric(mesh: Fabric) -> None:
    schedule = antiphon.build(Fabric("mesh:5x5"), "ring-2d", bytes=SMALL)
    for attempt in (schedule.verify, schedule.stats, lambda fabric: antiphon.simulate(fabric, schedule)):
        with pytest.raises(AntiphonError, match="25 ranks"):
            attempt(mesh)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_networkx(kind: Any, tmp_path: Path) -> None:
    graph = kind(name="square")
    for corner in "abcd":
        graph.add_node(corner, coords=f"{ord(corner) % 2},{ord(corner) // 2}")
    graph.add_node("switch", rank=False)
    for corner in "abcd":
        graph.add_edge(corner, "switch", rate_gb_per_s=100.0, latency_ns=7.5, dimension="up")
        if graph.is_directed():
            graph.add_edge("switch", corner)
    fabric = Fabric.from_networkx(graph)
    assert (fabric.name, fabric.ranks, len(fabric.links["from"])) == ("square", 4, 8)
    assert fabric.links["rate_gb_per_s"][0] == 100
    assert fabric.links["latency_ns"][0] == 7.5
    assert fabric.links["dimension"][0] == "up"
    assert fabric.nodes["name"].tolist() == ["a", "b", "c", "d", "switch"]
    file = tmp_path / "square.graphml"
    nx.write_graphml(graph, file)
    assert Fabric.from_graphml(file, "square").to_json() == fabric.to_json()
    assert antiphon.build(fabric, "ring", bytes=SMALL).verify(fabric).complete


def test_networkx_ranks_may_be_numbered() -> None:
    graph = nx.cycle_graph(4)
    for node in graph:
        graph.nodes[node]["rank"] = 3 - node
    assert Fabric.from_networkx(graph).nodes["name"].tolist() == ["3", "2", "1", "0"]


@pytest.mark.parametrize(
    ("node", "edge", "message"),
    [
        ({"rank": 7}, {}, "not 0 to 3"),
        ({"rank": "x"}, {}, "'rank'"),
        ({"coords": ["x"]}, {}, "'coords'"),
        ({"coords": "1;2"}, {}, "'coords'"),
        ({}, {"speed": 2}, "speed"),
        ({}, {"rate_gb_per_s": "fast"}, "'rate_gb_per_s'"),
        ({}, {"rate_gb_per_s": -1}, "rate"),
        ({}, {"latency_ns": float("nan")}, "latency_ns"),
    ],
)
def test_wrong_graphs(node: dict[str, Any], edge: dict[str, Any], message: str) -> None:
    graph = nx.cycle_graph(4)
    for index in graph:
        graph.nodes[index].update(node)
    graph.edges[0, 1].update(edge)
    with pytest.raises(AntiphonError, match=message):
        Fabric.from_networkx(graph)


def test_graph_attributes() -> None:
    graph = nx.path_graph(3)
    graph.edges[0, 1]["speed"] = 0.5
    for node in graph:
        graph.nodes[node]["coords"] = 2 * node
    fabric = Fabric.from_networkx(graph)
    assert fabric.links["speed"].tolist() == [0.5, 0.5, 1, 1]
    assert fabric.nodes["coord_0"].tolist() == [0, 2, 4]
    with pytest.raises(AntiphonError, match="not a networkx graph: str"):
        Fabric.from_networkx("petersen")


@pytest.mark.parametrize(
    "text", ["", "<graphml>", "{}", "<a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><graphml>&b;</graphml>"]
)
def test_wrong_graphml(text: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.graphml"
    file.write_text(text)
    with pytest.raises(AntiphonError) as caught:
        Fabric.from_graphml(file)
    assert "\n" not in str(caught.value)
    with pytest.raises(AntiphonError, match="cannot be read"):
        Fabric.from_graphml(tmp_path / "missing.graphml")


def test_lists() -> None:
    assert "mesh" in antiphon.fabrics()
    assert antiphon.systems()[0] == "generic"
    assert antiphon.collectives()[0] == "all-reduce"
    assert antiphon.fidelities() == ["alpha-beta", "packet", "flit"]
    for algorithm in antiphon.algorithms():
        assert algorithm.summary
        assert algorithm.source
        assert set(algorithm.collectives) <= set(antiphon.collectives())


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Name and object of all that `help` of a module should explain: functions, classes, methods, properties."""
    yield module.__name__, module
    for name in getattr(module, "__all__", dir(module)):
        thing = getattr(module, name)
        if name.startswith("_") or not callable(thing):
            continue
        yield f"{module.__name__}.{name}", thing
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            # Only methods and properties have __get__; the fields of a dataclass are explained by the class.
            if not member.startswith("_") and hasattr(value, "__get__") and not isinstance(value, MemberDescriptorType):
                yield f"{module.__name__}.{name}.{member}", value


@pytest.mark.parametrize("module", [_core, antiphon, antiphon.models], ids=lambda module: module.__name__)
def test_help_speaks(module: ModuleType) -> None:
    docs = {name: thing.__doc__ or "" for name, thing in public(module)}
    assert len(docs) > 5  # else nothing was found
    # Of a class without a docstring, dataclasses make one of its fields.
    silent = [name for name, doc in docs.items() if not doc.strip() or doc.startswith(name.rpartition(".")[2] + "(")]
    assert not silent, "no docstring: " + ", ".join(silent)


CALLABLE = [name for name in antiphon.__all__ if callable(getattr(antiphon, name))]
IN_THE_CORE = [name for name in CALLABLE if getattr(antiphon, name).__module__ in ("antiphon", "antiphon._core")]
"""What the core has itself, whose examples pytest does not find."""


@pytest.mark.parametrize("name", IN_THE_CORE)
def test_examples_of_the_core_run(name: str) -> None:
    doc = inspect.cleandoc(getattr(antiphon, name).__doc__)
    known = {each: getattr(antiphon, each) for each in IN_THE_CORE}
    example = doctest.DocTestParser().get_doctest(doc, known, name, None, 0)
    told: list[str] = []
    done = doctest.DocTestRunner().run(example, out=told.append)
    assert done.attempted > 0, "no example"
    assert done.failed == 0, "".join(told)


@pytest.mark.parametrize("name", [name for name in CALLABLE if name not in IN_THE_CORE])
def test_help_has_an_example_and_says_everything(name: str) -> None:
    """The examples are run as doctests."""
    thing = getattr(antiphon, name)
    doc = thing.__doc__
    assert ">>>" in doc, "no example"
    if inspect.isfunction(thing):
        parameters = list(inspect.signature(thing).parameters)
        routers = {each.key for each in antiphon.router_parameters()}  # which docs/parameters.md has
        assert [each for each in parameters if each not in routers and f"  {each}: " not in doc] == []
        assert not parameters or "Raises:" in doc
    elif dataclasses.is_dataclass(thing) and thing is not antiphon.Router:
        assert [field.name for field in dataclasses.fields(thing) if field.name not in doc] == []
