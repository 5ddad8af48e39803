"""What thread blocks may do with a program, in an order that a seed chooses: the rules of ``kernel.cu`` in Python."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from antiphon._core import Executor, Fabric, Schedule
from antiphon.execution.cuda.program import TASK, Program
from antiphon.execution.numbers import Data


def interpret(program: Program, memories: list[np.ndarray], element: str, seed: int, groups: int = 4) -> None:
    """Runs a program in place. ``memories`` are bytes; a queue has up to so many tasks under way.

    Raises:
        AssertionError: nothing can go on, or a gate is not what it says.
    """
    random, count = Random(seed), len(program.tasks)
    memories = [*memories, np.full(program.stage_bytes, 255, np.uint8)]
    began, ended, gates = np.zeros(count, bool), np.zeros(count, bool), program.gates.astype(int)
    tasks = [dict(zip(TASK, row, strict=True)) for row in program.tasks.tolist()]
    following = program.queues[:-1].tolist()
    under_way: list[dict[int, list[np.ndarray]]] = [{} for _ in following]

    def may_begin(queue: int) -> bool:
        number = following[queue]
        if number == program.queues[queue + 1] or (
            number - groups >= program.queues[queue] and not ended[number - groups]
        ):
            return False
        task = tasks[number]
        waits = program.waits[task["waits"] : task["waits_end"]]
        return bool(
            ended[waits[waits < count]].all()
            and began[waits[waits >= count] - count].all()
            and (task["gate"] < 0 or gates[task["gate"]] == 0)
        )

    def read(number: int) -> list[np.ndarray]:
        task = tasks[number]
        segments = program.segments[task["segments"] : task["segments_end"]].tolist()
        return [memories[task["from"]][start : start + bytes].copy() for start, _, bytes in segments]

    def end(number: int, early: list[np.ndarray]) -> None:
        task = tasks[number]
        for (_, start, bytes), data in zip(
            program.segments[task["segments"] : task["segments_end"]].tolist(), early or read(number), strict=True
        ):
            into = memories[task["to"]][start : start + bytes]
            assert len(into) == bytes
            if task["adds"]:
                own = into.view(element)
                own += data.view(element)
            else:
                into[:] = data
        ended[number] = True
        if task["closes"] >= 0:
            gates[task["closes"]] -= 1

    left = count
    while left:
        for queue in random.sample(range(len(following)), len(following)):
            if under_way[queue] and random.random() < 0.5:
                number = random.choice(list(under_way[queue]))
                end(number, under_way[queue].pop(number))
                left -= 1
                break
            if may_begin(queue):
                began[following[queue]] = True
                under_way[queue][following[queue]] = read(following[queue]) if random.random() < 0.5 else []
                following[queue] += 1
                break
        else:
            assert any(under_way), f"queues wait at {[at for at in following if at < count]}"
    assert not gates.any()


def buffers(schedule: Schedule, element: str) -> list[Data]:
    """The memories of all ranks before a run, out of place."""
    found = [Data(schedule, Executor(schedule, rank, element), rank, False) for rank in range(schedule.ranks)]
    for each in found:
        each.reset()
        each.load()
    return found


def timed(program: Program, fabric: Fabric, gb_per_s: float, hop_ns: float, groups: int = 8) -> float:
    """When the last task ends, in ns, if thread blocks keep the rates of links and a hop takes so long besides."""
    count, speed = len(program.tasks), fabric.links["speed"]
    width = [float(speed[list(links)].sum()) for links in program.links]
    ended, turns = [math.nan] * count, [math.nan] * count
    free, turn = [0.0] * len(width), [0.0] * len(width)
    left, closed = program.gates.astype(int).tolist(), [0.0] * len(program.gates)
    following, stuck = program.queues[:-1].tolist(), 0
    tasks = [dict(zip(TASK, row, strict=True)) for row in program.tasks.tolist()]
    while stuck < len(width):
        stuck = 0
        for each, end in enumerate(program.queues[1:].tolist()):
            before = following[each]
            while following[each] < end:
                number = following[each]
                task = tasks[number]
                waits = program.waits[task["waits"] : task["waits_end"]].tolist()
                needs = [turns[wait - count] if wait >= count else ended[wait] for wait in waits]
                if number - groups >= program.queues[each]:
                    needs.append(ended[number - groups])
                if task["gate"] >= 0:
                    needs.append(math.nan if left[task["gate"]] else closed[task["gate"]])
                if any(map(math.isnan, needs)):
                    break
                turns[number] = turn[each] = max([turn[each], *needs])
                start = max(turn[each], free[each])
                free[each] = start + float(program.compute_ns[number])
                if width[each]:
                    free[each] += float(program.wire_bytes[number]) / gb_per_s / width[each]
                ended[number] = free[each] + (hop_ns if width[each] else 0)
                if task["closes"] >= 0:
                    left[task["closes"]] -= 1
                    closed[task["closes"]] = max(closed[task["closes"]], ended[number])
                following[each] += 1
            stuck += following[each] == before
    return max(ended)
