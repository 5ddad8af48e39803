"""The Python package: objects, builder, results, foreign graphs, errors."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import math
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MemberDescriptorType, ModuleType
from typing import Any

import numpy as np
import pytest

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


def test_systems() -> None:
    system = System("tto")
    changed = system.with_(name="mine", link_latency_ns=5, packet_payload_bytes="4KiB", reduce_rate_gb_per_s=math.inf)
    assert (changed.name, changed.link_latency_ns, changed.packet_payload_bytes) == ("mine", 5, 4096)
    assert changed.reduce_rate_gb_per_s == math.inf
    assert changed != system
    assert System.from_json(changed.to_json()) == changed
    rate: Any = np.float32(2)
    assert system.with_(interfaces=np.int32(3), link_rate_gb_per_s=rate).interfaces == 3
    for parameter in system.parameters():
        value = getattr(system, parameter.key)
        assert getattr(System().with_(**{parameter.key: value}), parameter.key) == value
        assert system.with_(**{parameter.key: None}) == system  # pyright: ignore[reportArgumentType]
        assert getattr(System, parameter.key).__doc__ == parameter.meaning
        wrong: Any
        for wrong in ([], 10**5000, math.nan, -1, "nothing"):
            with pytest.raises(AntiphonError, match=parameter.key) as caught:
                system.with_(**{parameter.key: wrong})  # pyright: ignore[reportArgumentType]
            assert caught.value.code in ("bad-size", "bad-spec", "unknown-name")
            assert len(str(caught.value)) < 300
    defaults: dict[str, Any] = {each.key: each.default for each in system.parameters()}
    assert system.with_(**defaults) == system


def test_options_are_declared() -> None:
    options = {algorithm.name: {each.key: each for each in algorithm.options} for algorithm in antiphon.algorithms()}
    chunk = options["tto"]["chunk"]
    assert (chunk.kind, chunk.default, chunk.least, chunk.most) == ("bytes", "96KiB", 1, 2**50)
    assert options["ring-2d"]["dependencies"].choices == ("complete", "held")
    for name, known in options.items():
        for each in known.values():
            assert re.fullmatch(r"[A-Z].*\.", each.meaning)
            with pytest.raises(AntiphonError, match=f"{name}: {each.key}"):
                antiphon.build("mesh:4x4", f"{name}:{each.key}=no such value", bytes=SMALL)
    for algorithm in antiphon.algorithms():
        assert algorithm.source
        assert set(algorithm.collectives) <= set(antiphon.collectives())


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
        routers = {each.key for each in antiphon.router_parameters()}
        assert [each for each in parameters if each not in routers and f"  {each}: " not in doc] == []
        assert not parameters or "Raises:" in doc
    elif dataclasses.is_dataclass(thing) and thing is not antiphon.Router:
        assert [field.name for field in dataclasses.fields(thing) if field.name not in doc] == []


def test_objects_are_values(mesh: Fabric, result: antiphon.SimulationResult) -> None:
    """Pickled and compared; equal ones have one hash."""

    def schedule() -> Schedule:
        return antiphon.build(mesh, "ring", bytes=SMALL)

    hashed: list[Any] = [
        *map(Fabric, ("mesh:4x4", "switch:4", "dgx1v@50", "mesh:3x3,drop=0-1", "mesh:3x3,slow=0-1:0.5")),
        Fabric.from_rails("ring4@2000/20ns,sw4@800/700ns"),
        schedule(),
        System("tto").with_(link_rate_gb_per_s=50),
        antiphon.Workload("resnet50"),
    ]
    others: list[Any] = [
        schedule().stats(mesh),
        result,
        antiphon.lower_bound(mesh),
        antiphon.compare(mesh, bytes=SMALL, algorithms=["ring", "ring-2d"]),
    ]
    for value in hashed + others:
        again = pickle.loads(pickle.dumps(value))
        assert again is not value
        assert again == value
        assert repr(again) == repr(value)
        assert value not in hashed or len({again, value}) == 1
    assert len(set(hashed)) == len(hashed)
    assert "dgx1v@50" in repr(hashed[2])


def test_fabrics() -> None:
    fabric = Fabric("dgx-h100:2")
    assert fabric.dimensions["shape"].tolist() == ["switch", "switch"]
    assert fabric.dimensions["size"].tolist() == [8, 2]
    assert fabric.dimensions["rate_gb_per_s"].tolist() == [370.8, 48]
    assert fabric.nodes["name"].tolist()[7:9] == ["gpu0.7", "gpu1.0"]
    assert [group.members for group in fabric.groups("dimension=0")] == [list(range(8)), list(range(8, 16))]
    assert np.isnan(Fabric("torus:4x2@200/90ns+25").dimensions["latency_ns"]).tolist() == [False, True]
    assert len(Fabric("dgx1v").dimensions["size"]) == 0
    rails = "ring4@2000/20ns,sw4@800/700ns"
    assert Fabric.from_rails(rails) == antiphon.rails_messages(rails, chunks=1)[0]
    degraded = Fabric("mesh:3x3,exclude=4")
    assert Fabric.from_json(degraded.to_json(), degraded.name) == degraded
    cases: list[tuple[Callable[[], Fabric], str, str]] = [
        (lambda: Fabric("dgx-h100:2@400"), r"1 rate for 2 kinds of links \(nvlink, rail\)", "bad-spec"),
        (lambda: Fabric.from_rails("rng4@1/1ns"), "did you mean 'ring'", "unknown-name"),
        (lambda: Fabric.from_json("{", "mine"), "fabric 'mine'", "bad-file"),
    ]
    for wrong, message, code in cases:
        with pytest.raises(AntiphonError, match=message) as caught:
            wrong()
        assert caught.value.code == code


@pytest.mark.parametrize(("size", "count"), [(5, 5), ("64MiB", 2**26), ("375kB", 375_000), (np.int64(7), 7)])
def test_sizes(size: Any, count: int) -> None:
    assert antiphon.parse_bytes(size) == count == antiphon.parse_bytes(antiphon.format_bytes(count))


@pytest.mark.parametrize("size", [0, 1.5, "", "1e9", 2**64, 10**5000, None, "9999TiB", "x" * 999], ids=range(9))
def test_bad_sizes(size: Any) -> None:
    with pytest.raises(AntiphonError) as caught:
        antiphon.parse_bytes(size)
    assert caught.value.code == "bad-size"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_comparison(mesh: Fabric) -> None:
    comparison = antiphon.compare(mesh, bytes=SMALL)
    assert comparison == antiphon.compare(mesh, bytes=SMALL)
    assert {run.algorithm for run in comparison.runs} | {r.algorithm for r in comparison.refused} == {
        algorithm.name for algorithm in antiphon.algorithms()
    }
    for run in comparison.runs:
        assert run.result.proof.complete
        assert run.bus_bandwidth_gb_per_s >= run.algorithm_bandwidth_gb_per_s
    listed = antiphon.compare(mesh, bytes=SMALL, algorithms=["ring", "tto:chunk=32KiB,barrier=no"])
    assert antiphon.compare(mesh, bytes=SMALL, algorithms="ring,tto:chunk=32KiB,barrier=no") == listed
    refused = antiphon.compare("switch:6", bytes=SMALL, algorithms=["ring", "tto"]).refused
    assert [refusal.algorithm for refusal in refused] == ["tto"]
    with pytest.raises(AntiphonError, match="did you mean 'ring'") as caught:
        antiphon.compare("switch:6", bytes=SMALL, algorithms=["rign"])
    assert caught.value.code == "unknown-name"


def test_what_is_not_proven_on_a_fabric_is_never_timed(mesh: Fabric) -> None:
    builder = ScheduleBuilder("ring:4", "broadcast", 400, root=1)
    builder.copy(1, 2, builder.lane(0, 400), 0)
    incomplete, other = builder.finish(), antiphon.build("mesh:5x5", "ring-2d", bytes=SMALL)
    for fabric, schedule, message, code in (
        (Fabric("ring:4"), incomplete, "rank", "not-proven"),
        (mesh, other, "25 ranks", "bad-file"),
    ):
        for attempt in (schedule.verify, lambda fabric, schedule=schedule: antiphon.simulate(fabric, schedule)):
            with pytest.raises(AntiphonError, match=message) as caught:
                attempt(fabric)
            assert caught.value.code == code
    with pytest.raises(AntiphonError, match="25 ranks"):
        other.stats(mesh)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("how", [{}, {"seed": 1}, {"seed": 1, "threads": True}], ids=str)
def test_execution(dtype: Any, how: dict[str, Any]) -> None:
    schedule = antiphon.build("ring:5", "ring:buffers=1", bytes=40 * np.dtype(dtype).itemsize)
    buffers = [np.arange(40, dtype=dtype) * rank for rank in range(5)]
    for buffer in schedule.execute(buffers, **how):
        assert buffer.dtype == dtype
        assert buffer.tolist() == (np.arange(40) * 10).tolist()
    assert buffers[1].tolist() == list(range(40)), "the given arrays are not changed"
    good = np.zeros(40, np.float32)
    wrong: list[Any] = [
        [good] * 4,
        [good] * 6,
        [good[:5]] * 5,
        [*[good] * 4, np.zeros(40)],
        [1, 2],
        None,
        [good > 0] * 5,
    ]
    for each in wrong:
        with pytest.raises(AntiphonError) as caught:
            schedule.execute(each)
        assert caught.value.code in ("bad-spec", "bad-size")


@pytest.mark.parametrize(
    ("changes", "message", "code"),
    [
        *(
            ({"link_rate_gb_per_s": rate}, "link_rate_gb_per_s", "bad-size")
            for rate in (0, -1, math.nan, math.inf, 1e30)
        ),
        ({"interfaces": 0}, "expected", "bad-size"),
        ({"interfaces": True}, "interfaces=True", "bad-size"),
        ({"flit_bytes": "1TiB"}, "expected a size", "bad-size"),
        ({"interface": 4}, "no parameter 'interface'; did you mean 'interfaces'", "unknown-name"),
        *(({"fixed_size_packets": flag}, "expected yes or no", "bad-spec") for flag in (1, "true", 0.0)),
    ],
)
def test_wrong_parameters_of_systems(changes: dict[str, Any], message: str, code: str) -> None:
    with pytest.raises(AntiphonError, match=message) as caught:
        System("tto").with_(**changes)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda builder: None, "no transfers"),
        (lambda builder: builder.reduce(0, 9, builder.lane(0, 400), 0), r"ranks are 0 to 3"),
        (lambda builder: builder.copy(0, 1, 3, 0), "lane 3 of 0"),
        (lambda builder: builder.copy(0, 1, builder.lane(300, 101), 0), "past the end"),
    ],
)
def test_builder_mistakes(work: Callable[[ScheduleBuilder], object], message: str) -> None:
    builder = ScheduleBuilder("ring:4", "broadcast", 400, root=1)
    work(builder)
    with pytest.raises(AntiphonError, match=message):
        builder.finish()
    with pytest.raises(AntiphonError, match="root 9"):
        ScheduleBuilder("ring:4", "broadcast", 400, root=9)


def test_messages_keep_the_numbers_that_the_builder_returned() -> None:
    """Added in another order than they are served in; a counter-example says where the data stays."""
    builder = ScheduleBuilder("ring:4", "all-reduce", 400)
    lane = builder.lane(0, 400)
    for step, (rank, to) in enumerate([(3, 2), (2, 1), (1, 0)]):
        builder.reduce(rank, to, lane, 2 * step)
    late = builder.reduce(3, 0, builder.lane(400, 0), 9)
    early = builder.copy(0, 1, lane, 7)
    wrong = builder.copy(3, 2, lane, 8)
    schedule = builder.finish()
    assert (late, early, wrong) == (3, 4, 5)
    assert schedule.transfers["from"].tolist() == [3, 2, 1, 3, 0, 3]
    with pytest.raises(AntiphonError) as caught:
        schedule.verify(Fabric("ring:4"))
    assert "rank 2 ends without the contribution of ranks 0, 1, 2 in lane 0" in caught.value.message
    assert "last held by rank 1, after phase 'main' step 7 (transfer 4), and nobody sends it on" in caught.value.message


def test_progress_is_told_and_can_stop_work() -> None:
    # Nothing recurs in it that could be skipped.
    schedule = antiphon.build("mesh:8x8", "dbtree", bytes="4GiB")
    with pytest.raises(ZeroDivisionError):
        antiphon.simulate("mesh:8x8", schedule, progress=lambda share: 1 / 0 if 0 <= share <= 1 else None)
    with pytest.raises(ZeroDivisionError):
        # Eight million transfers: they take more than a tenth of a second, after which the first report comes.
        antiphon.build("switch:2048", "ring", progress=lambda share: 1 / 0)
    seen: list[str] = []
    antiphon.compare("mesh:4x4", bytes=SMALL, algorithms="ring", progress=lambda name, share: seen.append(name))
    assert (seen[0], seen[-1]) == ("ring (building)", "ring")
