"""What there is to choose from, and what is chosen."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import get_args

import pytest

import antiphon
from antiphon import Algorithm, AntiphonError, Entry, names

LISTS = [
    antiphon.algorithms,
    antiphon.collectives,
    antiphon.compute_models,
    antiphon.fabrics,
    antiphon.fidelities,
    antiphon.large_models,
    antiphon.rails_queues,
    antiphon.rails_schedulers,
    antiphon.rails_topologies,
    antiphon.systems,
    antiphon.traffic_patterns,
    antiphon.workloads,
]


@pytest.mark.parametrize("entries", LISTS, ids=lambda entries: entries.__name__)
def test_lists_are_of_records_that_are_names(entries: Callable[[], list[Entry]]) -> None:
    for each in entries():
        assert type(each) is Entry
        assert type(each.name) is str
        assert each == each.name
        assert each.summary
        assert {each, each.name} == {each}
        assert {option.key for option in each.options} <= {option.key for option in set(each.options)}
        copy = pickle.loads(pickle.dumps(each))
        assert (copy, vars(copy)) == (each, vars(each))
        with pytest.raises(AttributeError, match="cannot be changed"):
            each.summary = ""


def test_an_entry_goes_where_its_name_goes() -> None:
    fabric = next(each for each in antiphon.fabrics() if each == "ring").example
    system = antiphon.systems()[0]
    comparison = antiphon.compare(fabric, antiphon.collectives()[0], "64KiB", antiphon.algorithms()[:2], system)
    assert [run.algorithm for run in comparison.runs]
    assert antiphon.System(system).description == system.summary


@pytest.mark.parametrize(
    ("literal", "known"),
    [
        (names.Collective, antiphon.collectives()),
        (names.Fidelity, antiphon.fidelities()),
        (names.Scheduler, antiphon.rails_schedulers()),
    ],
)
def test_literal_types_name_what_there_is(literal: object, known: list[Entry]) -> None:
    assert list(get_args(literal)) == known


def test_literal_types_of_training_and_flights() -> None:
    ring = antiphon.Fabric("ring:4")
    for in_flight in get_args(names.InFlight):
        assert antiphon.train("alexnet", ring, "ring", in_flight=in_flight, fidelity="alpha-beta")
    flight = antiphon.Flight(antiphon.build(ring, "ring", bytes=4096))
    for order in get_args(names.Order):
        assert antiphon.simulate_flights(ring, [flight], order=order).order == order


def test_an_algorithm_is_its_specification() -> None:
    tto = Algorithm("tto", chunk=98304, barrier=False)
    assert tto == "tto:chunk=98304,barrier=no"
    assert (tto.name, tto.options) == ("tto", {"chunk": "98304", "barrier": "no"})
    ring = Algorithm("ring")
    assert (ring.name, type(ring.name), ring.options) == ("ring", str, {})
    for each in (tto, ring):
        copy = pickle.loads(pickle.dumps(each))
        assert (copy, type(copy), hash(copy)) == (each, Algorithm, hash(str(each)))
    mesh = "mesh:4x4"
    assert antiphon.build(mesh, tto, bytes="1MiB") == antiphon.build(mesh, str(tto), bytes="1MiB")
    assert antiphon.compare(mesh, bytes="1MiB", algorithms=tto)[tto].algorithm == tto
    assert antiphon.compare(mesh, bytes="1MiB", algorithms=[tto, "ring"])["tto"].algorithm == tto
    assert antiphon.tune(mesh, sizes=["1MiB"], algorithms=[tto])["1MiB"].best.algorithm == tto
    assert antiphon.train("alexnet", mesh, tto).algorithm == tto


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tto2", {}, "no algorithm 'tto2'; known: tto"),
        ("tto", {"chunks": 3}, "tto has no option 'chunks'; known: chunk, excluded, barrier, third, align"),
        ("ring-bi", {"chunk": 3}, "ring-bi has no option 'chunk'; known: align"),
    ],
)
def test_wrong_algorithms(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(AntiphonError, match=message) as caught:
        Algorithm(name, **options)
    assert caught.value.code == "unknown-name"


def test_functions_take_specifications_and_objects(tmp_path: object) -> None:
    spec, fabric = "mesh:2x2", antiphon.Fabric("mesh:2x2")
    system = antiphon.System("tto")
    schedule = antiphon.build(spec, "ring", bytes=4096, system="tto")
    assert schedule == antiphon.build(fabric, "ring", bytes=4096, system=system)
    file = f"{tmp_path}/schedule.json"
    with open(file, "w") as written:
        written.write(schedule.to_json())
    assert antiphon.verify(spec, file) == antiphon.verify(fabric, schedule)
    assert antiphon.lower_bound(spec, bytes=4096, system="tto") == antiphon.lower_bound(
        fabric, "all-reduce", 4096, system
    )
    assert antiphon.simulate(spec, file, "tto") == antiphon.simulate(fabric, schedule, system)
    assert antiphon.run(spec, file, "tto") == antiphon.run(fabric, schedule, system)
    comparison = antiphon.compare(spec, bytes=4096, algorithms="direct", system="tto", schedules=[file])
    assert len(comparison) == 2
    assert antiphon.noc(spec, warm_up_cycles=10, cycles=10) == antiphon.noc(fabric, warm_up_cycles=10, cycles=10)
    flights = [antiphon.Flight(schedule)]
    assert antiphon.simulate_flights(spec, flights, "tto") == antiphon.simulate_flights(fabric, flights, system)
    with pytest.raises(AntiphonError, match="schedule 'ring' is no file"):
        antiphon.verify(spec, "ring")
    with pytest.raises(TypeError, match="argument 'fabric': expected str or Fabric, not int"):
        antiphon.compare(4)  # type: ignore[arg-type]
