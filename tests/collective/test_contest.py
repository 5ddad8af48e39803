"""What a comparison times, what it only estimates, and what it times once."""

from __future__ import annotations

from typing import Any

import pytest

import antiphon
from antiphon.collective import contest


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Algorithms whose schedules are simulated."""
    names: list[str] = []
    run = antiphon.run

    def counted(fabric: Any, schedule: antiphon.Schedule, *arguments: Any, **named: Any) -> antiphon.Run:
        names.append(schedule.algorithm)
        return run(fabric, schedule, *arguments, **named)

    monkeypatch.setattr("antiphon.collective.comparison.run", counted)
    return names


def test_the_hopeless_are_estimated(timed: list[str]) -> None:
    some = antiphon.compare("mesh:8x8", bytes="16MiB", system="tto")
    assert [each.algorithm for each in some.estimates] == ["direct"]
    assert "direct" not in timed
    every = antiphon.compare("mesh:8x8", bytes="16MiB", system="tto", estimates=False)
    assert every.estimates == []
    assert {run.algorithm for run in every} == {run.algorithm for run in some} | {"direct"}
    assert all(run.time_ns == some[run.algorithm].time_ns for run in every if run.algorithm != "direct")
    # What is said of it holds, and it is hopeless indeed.
    direct = some.estimates[0]
    assert contest.HOPELESS * some.best.time_ns < direct.least_time_ns <= every["direct"].time_ns
    assert direct.most_efficiency == pytest.approx(some.bound.time_ns / direct.least_time_ns)
    with pytest.raises(antiphon.AntiphonError, match="direct was left out: an estimate puts it far behind"):
        some["direct"]


def test_what_is_asked_for_is_timed() -> None:
    named = antiphon.compare("mesh:8x8", bytes="16MiB", algorithms="ring-bi,direct", system="tto")
    assert named.estimates == []
    assert len(named) == 2
    own = antiphon.build("mesh:8x8", "direct", bytes="16MiB", system="tto")
    beside = antiphon.compare("mesh:8x8", bytes="16MiB", system="tto", schedules=[own])
    assert "direct" in [run.algorithm for run in beside]


def test_estimates_are_known_before_the_schedule() -> None:
    for fabric in ("mesh:4x4", "dgx1v", "switch:8"):
        sooner = antiphon._core.busiest_link_ns(antiphon.Fabric(fabric), "direct", bytes="1MiB")
        schedule = antiphon.build(fabric, "direct", bytes="1MiB")
        assert sooner == schedule.busiest_link_ns(antiphon.Fabric(fabric))
        assert sooner is not None
        assert sooner <= antiphon.simulate(fabric, schedule).time_ns
    assert antiphon._core.busiest_link_ns(antiphon.Fabric("ring:4"), "ring") is None


def test_twins_are_timed_once(timed: list[str]) -> None:
    # One ring is all that there is to nest.
    found = antiphon.compare("ring:6", bytes="1MiB", algorithms="ring:gather=back,nested-ring")
    assert len(timed) == 1
    once, twin = found["ring:gather=back"], found["nested-ring"]
    assert (once.time_ns, once.result.links) == (twin.time_ns, twin.result.links)
    ring, nested = (antiphon.build("ring:6", name, bytes="1MiB") for name in ("ring:gather=back", "nested-ring"))
    assert ring.sends_the_same(nested)
    assert ring != nested
    assert not ring.sends_the_same(antiphon.build("ring:6", "ring", bytes="2MiB"))
    assert [each["algorithm"] for each in found.to_dict()["seconds"]] == [run.algorithm for run in found]
    assert all(seconds > 0 for seconds in found.seconds)


def test_little_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = antiphon.compare("mesh:4x4", bytes="1MiB", system="tto")
    monkeypatch.setattr(contest, "free_memory", lambda: 0)
    monkeypatch.setattr("antiphon.parallel.free_memory", lambda: 0)
    assert antiphon.compare("mesh:4x4", bytes="1MiB", system="tto") == usual


def test_a_library_stands_beside_schedules(commands: Any) -> None:
    asked = ("compare", "dgx-h100:1", "--bytes", "64MiB", "--algorithms", "ring", "--library", "nccl")
    found = commands.document(*asked)
    assert (found["library"]["algorithm"], found["library"]["protocol"]) == ("nvls", "Simple")
    assert found["library"]["time_ns"] == pytest.approx(271_700, rel=0.005)
    assert found["library"]["expected_ns"] > found["library"]["time_ns"]
    assert "model" in commands.invoke(*asked).stdout
    assert "library" not in commands.document(*asked[:-2])
    for wrong, message in (
        (("mesh:2x2", "--library", "nccl"), "'mesh:2x2' is no cluster that libraries are modelled on"),
        (("dgx-h100:1", "--library", "ncl"), "no library 'ncl'; known: nccl, rccl"),
        (("mi300x:1", "--library", "nccl"), "ask for the library rccl"),
        (("dgx-h100:1", "--library", "nccl", "--collective", "all-to-all"), "no library's model covers all-to-all"),
    ):
        assert message in commands.refused("compare", *wrong)
