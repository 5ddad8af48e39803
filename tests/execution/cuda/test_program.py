"""Programs of thread blocks: whatever order blocks take, the results are those that the collective defines."""

from __future__ import annotations

import json
from random import Random

import gpu_tables
import numpy as np
import pytest
from cuda_interpreter import buffers, interpret, timed
from random_schedules import random_schedule, with_waits

import antiphon
from antiphon.execution.cuda.program import PIECE_BYTES, TASK, Layer, Program, flatten

FABRICS = ("mesh:2x3", "ring:4", "switch:4", "dgx1v")


def check(
    schedule: antiphon.Schedule, fabric: antiphon.Fabric | None, element: str = "int32", seed: int = 0
) -> Program:
    """Runs the program of a schedule by a random order of its blocks."""
    program = flatten(schedule, np.dtype(element).itemsize, fabric)
    data = buffers(schedule, element)
    interpret(program, [each.memory for each in data], element, seed, groups=1 + seed % 4)
    assert [each.wrong() for each in data] == [0] * schedule.ranks, schedule.algorithm
    return program


@pytest.mark.parametrize("spec", FABRICS)
@pytest.mark.parametrize("collective", antiphon.collectives())
def test_every_algorithm(spec: str, collective: str) -> None:
    fabric, tried = antiphon.Fabric(spec), 0
    for algorithm in antiphon.algorithms():
        try:
            schedule = antiphon.build(fabric, algorithm.name, collective, 8 * 515)
        except antiphon.NotApplicable:
            continue
        for seed, where in enumerate((None, fabric)):
            check(schedule, where, "int64" if seed else "float32", seed)
        tried += 1
    assert tried > 1


@pytest.mark.parametrize("seed", range(60))
def test_random_schedules(seed: int) -> None:
    random = Random(seed)
    schedule = with_waits(random, random_schedule(random))
    fabric = antiphon.Fabric(schedule.fabric)
    schedule.verify(fabric)
    for where in (None, fabric):
        check(schedule, where, seed=seed)


def test_relays_pass_pieces_on() -> None:
    fabric = antiphon.Fabric("mesh:1x4")
    builder = antiphon.ScheduleBuilder(fabric, "broadcast", 2 * PIECE_BYTES + 20, root=0)
    lane = builder.lane(0, 2 * PIECE_BYTES + 20)
    for rank in (1, 2, 3):
        builder.copy(0, rank, lane, rank)
    program = check(builder.finish(), fabric)
    assert len(program.tasks) == 1 + 2 * 3 + 3 * 3  # links times pieces
    sizes = program.segments[:, 2]
    assert sorted(set(sizes.tolist())) == [20, PIECE_BYTES, 2 * PIECE_BYTES + 20]


def column(program: Program, name: str) -> list[int]:
    return program.tasks[:, TASK.index(name)].tolist()  # type: ignore[no-any-return]


def waits_of(program: Program) -> list[list[int]]:
    bounds = zip(column(program, "waits"), column(program, "waits_end"), strict=True)
    return [program.waits[start:end].tolist() for start, end in bounds]


def three_sends(**endpoint: object) -> Program:
    """Rank 0 of a line sends two lanes to 1, and one of them on."""
    fabric = antiphon.Fabric("mesh:1x3")
    builder = antiphon.ScheduleBuilder(fabric, "broadcast", 64, root=0)
    lanes = [builder.lane(0, 32), builder.lane(32, 32)]
    for step, lane in enumerate(lanes):
        builder.copy(0, 1, lane, step)
        builder.copy(1, 2, lane, step + 2)
    document = json.loads(builder.finish().to_json())
    document["endpoint"] |= endpoint
    return flatten(antiphon.Schedule.from_json(json.dumps(document)), 4, fabric)


def test_endpoints_become_waits() -> None:
    # Tasks 0 and 1 are those of link 0-1, 2 and 3 of link 1-2.
    assert waits_of(three_sends()) == [[], [], [0], [1]]
    assert waits_of(three_sends(pacing="stop-and-wait")) == [[], [0], [0], [1, 2]]
    strict = three_sends(issue="strict-steps")
    assert waits_of(strict) == [[], [4], [0], [1, 6]]
    assert column(strict, "begins") == [1, 0, 1, 0]


def test_what_is_held_comes_in_by_a_queue_of_its_own() -> None:
    fabric = antiphon.Fabric("mesh:1x2")
    builder = antiphon.ScheduleBuilder(fabric, "all-reduce", 64)
    lane = builder.lane(0, 64)
    builder.reduce(0, 1, lane, 0)
    builder.reduce(1, 0, lane, 1)
    document = json.loads(builder.finish().to_json())
    for number, transfer in enumerate(document["transfers"]):
        transfer["start_after"] = []
        transfer["apply_after"] = [{"transfer": 1 - number, "event": "sent"}]
    schedule = antiphon.Schedule.from_json(json.dumps(document), fabric)
    schedule.verify(fabric)
    for where in (None, fabric):
        for seed in range(4):
            assert len(check(schedule, where, seed=seed).queues) == 4


def test_parallel_links_that_act_together_are_one_queue() -> None:
    fabric = antiphon.Fabric("dgx1v")
    program = flatten(antiphon.build(fabric, "ring", bytes="64KiB"), 4, fabric)
    assert {len(links) for links in program.links} <= {1, 2}
    assert 2 in {len(links) for links in program.links}


def test_layers_wait_for_their_own_chunks() -> None:
    fabric = antiphon.Fabric("ring:4")
    schedule = antiphon.build(fabric, "overlapped-tree:chunk=1KiB", bytes=1 << 12)
    sizes = [1000, 0, 3096]
    chained, whole = (
        flatten(schedule, 4, fabric, [Layer(size, 5.0) for size in sizes], is_chained) for is_chained in (True, False)
    )
    for program in (chained, whole):
        assert program.compute_ns.sum() == 4 * 3 * 5.0
        assert (program.message[-12:, 0] == -1).all()
        data = buffers(schedule, "int32")
        interpret(program, [each.memory for each in data], "int32", 1)
    first = [len(waits_of(program)[-3]) for program in (chained, whole)]
    assert 0 < first[0] < first[1]
    assert waits_of(whole)[-2:] == [[], []]


@pytest.mark.parametrize(
    ("spec", "algorithms"),
    [
        ("mesh:4x4", ("ring", "ring-bi", "tto", "combs", "multitree", "overlapped-tree:overlap=no")),
        ("ring:4,slow=0-1:0.5", ("ring-bi", "overlapped-tree")),
        ("dgx1v", ("ring", "multitree", "overlapped-tree:overlap=no", "overlapped-tree")),
    ],
)
def test_blocks_that_keep_their_rates_take_what_is_predicted(spec: str, algorithms: tuple[str, ...]) -> None:
    fabric, hop_ns = antiphon.Fabric(spec), 2700.0
    ideal = antiphon.System("ideal").with_(interface_assignment="port")
    system = ideal.with_(link_rate_gb_per_s=4.0, link_latency_ns=hop_ns)
    for algorithm in algorithms:
        schedule = antiphon.build(fabric, algorithm, bytes="1MiB", system=system)
        predicted_ns = antiphon.simulate(fabric, schedule, system).time_ns
        assert timed(flatten(schedule, 4, fabric), fabric, 4.0, hop_ns) == pytest.approx(predicted_ns, rel=0.01), (
            algorithm
        )


def test_layers_take_what_is_predicted() -> None:
    fabric, size = antiphon.Fabric("dgx1v"), 1 << 20
    ideal = antiphon.System("ideal").with_(interface_assignment="port")
    system = ideal.with_(link_rate_gb_per_s=4.0, link_latency_ns=2700.0)
    layers = [Layer(size // 8, 2e4)] * 8
    for algorithm, is_chained in gpu_tables.CCUBE.values():
        schedule = antiphon.build(fabric, algorithm, bytes=size, system=system)
        result = antiphon.simulate(fabric, schedule, system)
        predicted_ns = gpu_tables.iteration_ns(schedule, result, layers, is_chained)
        program = flatten(schedule, 4, fabric, layers, is_chained)
        assert timed(program, fabric, 4.0, 2700.0) == pytest.approx(predicted_ns, rel=0.01), algorithm
