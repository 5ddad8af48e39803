"""Schedules whose shards, lanes and chunks begin at multiples of more than an element."""

from __future__ import annotations

import json

import pytest

import antiphon
from antiphon import AntiphonError, Schedule, ScheduleBuilder
from antiphon.collective.specs import Algorithm


def test_all_algorithms_have_it() -> None:
    assert all("align" in [option.key for option in each.options] for each in antiphon.algorithms())
    assert Algorithm("ring", align=16) == "ring:align=16"


def test_shards_of_a_schedule() -> None:
    for align in (4, 16, 64):
        schedule = antiphon.build("ring:3", f"direct:align={align}", "all-gather", 1000)
        lanes = list(zip(schedule.lanes["offset"].tolist(), schedule.lanes["bytes"].tolist(), strict=True))
        assert lanes == [antiphon.shard(1000, 3, rank, align) for rank in range(3)]
        assert schedule.align == align
        assert antiphon.verify("ring:3", schedule).complete
        text = schedule.to_json()
        assert json.loads(text).get("align", 4) == align
        assert Schedule.from_json(text).align == align
    assert "align" not in json.loads(antiphon.build("ring:3", "direct", "all-gather", 1000).to_json())


def test_a_builder_cuts_chunks_by_it() -> None:
    def built(offset: int) -> Schedule:
        builder = ScheduleBuilder("ring:2", "broadcast", 100, align=16)
        builder.copy(0, 1, builder.lane(0, offset, chunks=3), 0)
        builder.copy(0, 1, builder.lane(offset, 100 - offset), 0)
        return builder.finish()

    schedule = built(64)
    assert schedule.lanes["chunk_bytes"].tolist() == [32, 36]
    assert antiphon.verify("ring:2", schedule).complete
    with pytest.raises(AntiphonError, match="lane 1 begins at byte 60, no multiple of its align 16") as refused:
        built(60)
    assert refused.value.code == "bad-file"


def test_the_bound_is_of_the_shards_there_are() -> None:
    """With a page a shard, two ranks begin without data and need all."""
    runs = antiphon.compare("fc:4", "all-gather", 8000, "direct,direct:align=4096", "ideal")
    bounds = {run.algorithm: run.bound.time_ns for run in runs}
    assert bounds["direct:align=4096"] > bounds["direct"] == runs.bound.time_ns
    assert all(run.time_ns >= run.bound.time_ns for run in runs)


@pytest.mark.parametrize("align", [6, 8192])
def test_what_is_no_alignment(align: int) -> None:
    message = f"align is {align}, expected a power of two from 4 to 4096"
    with pytest.raises(AntiphonError, match=message):
        antiphon.shard(100, 3, 1, align)
    with pytest.raises(AntiphonError, match=message):
        ScheduleBuilder("ring:2", "broadcast", 100, align=align)
    with pytest.raises(AntiphonError, match=f"ring:align={align}: {message}"):
        antiphon.build("ring:3", f"ring:align={align}")
    text = antiphon.build("ring:3", "ring:align=16", bytes=999).to_json().replace('"align":16', f'"align":{align}')
    with pytest.raises(AntiphonError, match=message) as refused:
        Schedule.from_json(text)
    assert refused.value.code == "bad-file"


def test_a_matrix_has_none() -> None:
    with pytest.raises(AntiphonError, match="a matrix says where parts begin") as refused:
        antiphon.build("ring:2", "direct:align=16", "all-to-all", matrix=[[0, 5], [7, 0]])
    assert refused.value.code == "bad-spec"


def test_a_plugin_takes_it_as_an_option() -> None:
    @antiphon.register("aligned", collectives=["broadcast"])
    def aligned(fabric, collective, bytes, system, align: int = 4):  # type: ignore[no-untyped-def]
        builder = ScheduleBuilder(fabric, collective, bytes, align=align)
        lane = builder.lane(0, bytes, chunks=3)
        for rank in range(1, fabric.ranks):
            builder.copy(0, rank, lane, 0)
        return builder.finish()

    @antiphon.register("plain", collectives=["broadcast"])
    def plain(fabric, collective, bytes, system):  # type: ignore[no-untyped-def]
        return antiphon.build(fabric, "direct", collective, bytes, system)

    try:
        assert antiphon.build("ring:3", "aligned:align=64", "broadcast", 1000).align == 64
        with pytest.raises(AntiphonError, match="plain has no option 'align'"):
            antiphon.build("ring:3", "plain:align=64", "broadcast", 1000)
    finally:
        antiphon.plugins.forget("aligned")
        antiphon.plugins.forget("plain")


@pytest.mark.parametrize("system", ["ideal", "generic", "tto", "h100-nccl"])
def test_no_run_is_below_the_least_time(system: str) -> None:
    fabric = antiphon.Fabric("mesh:4x4")
    for algorithm in ("ring-bi", "nested-ring", "combs", "tto", "overlapped-tree"):
        schedule = antiphon.build(fabric, algorithm, bytes="256KiB", system=system)
        any_detail = schedule.least_ns(fabric, system)
        assert schedule.busiest_link_ns(fabric, system) <= any_detail
        for fidelity in ("alpha-beta", "packet"):
            least = schedule.least_ns(fabric, system, fidelity)
            time = antiphon.simulate(fabric, schedule, system=system, fidelity=fidelity).time_ns
            assert any_detail <= least <= time
            if (system, algorithm) == ("ideal", "ring-bi"):
                assert least == time
