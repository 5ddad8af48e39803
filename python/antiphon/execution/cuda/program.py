"""A schedule as flat arrays for thread blocks: a queue a link or pair of ranks, of tasks that wait for other tasks.

A task moves a message, or a piece of one, over one link. A queue begins its tasks in order, several at once where what
they wait for is there. All that orders tasks is in these arrays; the kernel (``kernel.cu``) knows no schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from antiphon._core import Fabric, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.layers import dealt, shared_out

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PIECE_BYTES = 1 << 16
"""What relays pass on at once: a packet of the system ``ideal``."""
MOST_TASKS = 1 << 24
TASK = ("segments", "segments_end", "waits", "waits_end", "from", "to", "gate", "closes", "adds", "begins", "cycles")
"""Columns of a task, as in ``kernel.cu``: its segments and waits; memories read and written; the gate that must be
closed, -1: none; the gate that it helps to close, -1: none; whether it adds; whether others wait for its beginning; for
how long it has its link."""


@dataclass(frozen=True)
class Layer:
    """What a rank computes once its part of the data is final.

    Attributes:
        bytes: length of its part, behind those of the layers before it.
        compute_ns: for how long it computes.
    """

    bytes: int
    compute_ns: float


@dataclass(frozen=True)
class Program:
    """What thread blocks do.

    Attributes:
        tasks: of shape (tasks, 11), int64: the columns of ``TASK``, queue by queue.
        segments: of shape (segments, 3), int64: first byte in the memory read and in that written, and bytes.
        waits: int32: numbers of tasks that must have ended or, plus the number of all tasks, begun.
        queues: of shape (queues + 1), int32: first task of each queue.
        links: the links of each queue, or none.
        gates: uint32: tasks that close each gate.
        ranks: memories before the one through which relays pass messages.
        stage_bytes: bytes of that one.
        message: of shape (tasks, 2): transfer and chunk; rank and layer, where the transfer is -1.
        wire_bytes: float64: bytes that each task sends over its link.
        compute_ns: float64: for how long a task computes.
    """

    tasks: Array
    segments: Array
    waits: Array
    queues: Array
    links: tuple[tuple[int, ...], ...]
    gates: Array
    ranks: int
    stage_bytes: int
    message: Array
    wire_bytes: Array
    compute_ns: Array

    def column(self, name: str) -> Array:
        """A column of the tasks, which may be written."""
        column: Array = self.tasks[:, TASK.index(name)]
        return column


def _ramp(counts: Array) -> Array:
    """0, 1, ... for each count."""
    import numpy as np

    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    ramp: Array = np.arange(total) - np.repeat(ends - counts, counts)
    return ramp


class Flattening:
    """The steps from a schedule to a program. A message is a chunk of a transfer; its *turn* is its place in schedule
    order."""

    def __init__(self, schedule: Schedule, element_bytes: int, fabric: Fabric | None = None) -> None:
        """Queues are those of the links of ``fabric``; without one of pairs of ranks, which share a memory."""
        import numpy as np

        if schedule.switches:
            what = f"a GPU has no switches, which add in {schedule.algorithm}; give a schedule in which only ranks do"
            raise AntiphonError(what, "not-applicable")
        self.element, self.schedule, document = element_bytes, schedule, json.loads(schedule.to_json())
        table = {name: column.astype(np.int64) for name, column in schedule.transfers.items()}
        self.table, self.endpoint = table, document.get("endpoint", {})
        self.first = np.concatenate(([0], np.cumsum(table["chunks"])))
        self.transfer = np.repeat(np.arange(len(table["from"])), table["chunks"])
        self.chunk = np.arange(len(self.transfer)) - self.first[self.transfer]
        payloads = {name: column.astype(np.int64) for name, column in schedule.payloads.items()}
        lane = payloads["lane"][np.searchsorted(payloads["transfer"], np.arange(len(table["from"])))]
        stride = schedule.lanes["stride"].astype(np.int64)[lane][self.transfer]
        slot = table["step"][self.transfer] + self.chunk * stride
        order = np.lexsort((self.transfer, slot, table["phase"][self.transfer]))
        self.turn = np.empty(len(order), np.int64)
        self.turn[order] = np.arange(len(order))
        # The slots of all ranks, numbered in order.
        change = np.diff(table["phase"][self.transfer][order]) != 0
        change |= np.diff(slot[order]) != 0
        self.slot = np.empty(len(order), np.int64)
        self.slot[order] = np.concatenate(([0], np.cumsum(change)))[: len(order)]
        barriers = np.cumsum([phase.get("barrier", False) for phase in document["phases"]])
        self._segments(payloads)
        self._dependencies()
        self._ways(fabric, document.get("bundled_links", []))
        self._tasks()
        # Gates that nothing closes are none.
        gates, self.gate = np.unique(barriers[table["phase"][self.transfer]], return_inverse=True)
        self.gates = len(gates)

    def _segments(self, payloads: dict[str, Array]) -> None:
        """Parts of the memory that each message carries: its first byte, bytes, and message."""
        import numpy as np

        chunks = self.table["chunks"][payloads["transfer"]]
        row, chunk = np.repeat(np.arange(len(chunks)), chunks), _ramp(chunks)
        lane, message = payloads["lane"][row], self.first[payloads["transfer"][row]] + chunk
        ranges, counts = self.schedule.chunk_ranges(self.element), self.schedule.lanes["chunks"].astype(np.int64)
        of_lane = np.cumsum(counts) - counts
        places = np.zeros((2, int(counts.sum())), np.int64)
        places[:, of_lane[ranges["lane"].astype(np.int64)] + ranges["chunk"].astype(np.int64)] = (
            ranges["first"],
            ranges["end"],
        )
        start, end = places[:, of_lane[lane] + chunk]
        kept = np.flatnonzero(end > start)
        kept = kept[np.argsort(message[kept], kind="stable")]
        start, end, message = start[kept], end[kept], message[kept]
        joined = np.concatenate(([False], (message[1:] == message[:-1]) & (start[1:] == end[:-1])))[: len(start)]
        begin = np.flatnonzero(~joined)
        last = np.concatenate((begin[1:], [len(start)])) - 1 if len(start) else begin
        self.seg_start, self.seg_bytes, self.seg_message = start[begin], end[last] - start[begin], message[begin]
        self.bytes = np.bincount(self.seg_message, self.seg_bytes, len(self.transfer)).astype(np.int64)

    def _dependencies(self) -> None:
        """What messages wait for, message by message, and which are held at the receiver until later ones are sent."""
        import numpy as np

        given = {name: column.astype(np.int64) for name, column in self.schedule.dependencies.items()}
        count = np.maximum(self.table["chunks"][given["transfer"]] - given["lag"], 0)
        row, chunk = np.repeat(np.arange(len(count)), count), _ramp(count)
        self.dep_message = self.first[given["transfer"][row]] + chunk + given["lag"][row]
        self.dep_other = self.first[given["after"][row]] + chunk
        self.dep_sent, self.dep_held = given["sent"][row] > 0, given["at_receiver"][row] > 0
        until = self.turn.copy()
        np.maximum.at(until, self.dep_message, np.where(self.dep_held, self.turn[self.dep_other], 0))
        self.until, self.held = until, np.zeros(len(self.table["from"]), bool)
        self.held[self.transfer[until > self.turn]] = True

    def _ways(self, fabric: Fabric | None, bundled: list[int]) -> None:
        """The queues on the way of each transfer."""
        import numpy as np

        pairs = self.table["from"] * self.schedule.ranks + self.table["to"]
        known, pair = np.unique(pairs, return_inverse=True)
        if fabric is None:
            self.hops, self.way, self.links = np.ones(len(pairs), np.int64), pair, [()] * len(known)
        else:
            ends = list(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))
            together = {ends[link] for link in bundled}
            channels: dict[Any, list[int]] = {}
            for link, each in enumerate(ends):
                channels.setdefault(each if each in together else link, []).append(link)
            number = np.empty(len(ends), np.int64)
            for channel, links in enumerate(channels.values()):
                number[links] = channel
            routes = self.schedule.routes
            self.hops = self.table["hops"]
            if not self.hops.all():
                raise AntiphonError(f"{self.schedule.algorithm}: ranks share a node", "not-applicable")
            used, self.way = np.unique(number[routes["link"].astype(np.int64)], return_inverse=True)
            every = [tuple(links) for links in channels.values()]
            self.links = [every[channel] for channel in used]
        # What is held lies apart, and comes in by a queue of its own.
        waiting, self.holder = np.unique(np.where(self.held, pair, -1), return_inverse=True)
        self.holder = self.holder - int(len(waiting) > 0 and waiting[0] < 0) + len(self.links)
        self.links += [()] * int((waiting >= 0).sum())
        self.way_first = np.cumsum(self.hops) - self.hops
        self.parts = self.hops + self.held

    def _tasks(self) -> None:
        """The tasks of all messages, by message, hop and piece, and their places queue by queue."""
        import numpy as np

        relayed = self.hops[self.transfer] > 1
        self.pieces = np.where(relayed, np.maximum(-(-self.bytes // PIECE_BYTES), 1), 1)
        self.count = self.parts[self.transfer] * self.pieces
        if self.count.sum() > MOST_TASKS:
            raise AntiphonError(
                f"{self.count.sum():,} messages over links; at most {MOST_TASKS:,} are run", "too-large"
            )
        self.start = np.cumsum(self.count) - self.count
        self.of = np.repeat(np.arange(len(self.transfer)), self.count)
        at, pieces = _ramp(self.count), self.pieces[self.of]
        self.hop, self.piece = at // pieces, at % pieces
        transfer = self.transfer[self.of]
        comes_in = self.hop >= self.hops[transfer]
        way = self.way[np.minimum(self.way_first[transfer] + self.hop, len(self.way) - 1)] if len(self.way) else at
        self.queue = np.where(comes_in, self.holder[transfer], way)
        self.last = self.hop == self.parts[transfer] - 1
        turn = np.where(comes_in, self.until[self.of], self.turn[self.of])
        self.order = np.lexsort((self.piece, self.turn[self.of], turn, self.queue))

    def _each_piece(self, message: Array, is_last: Any) -> tuple[Array, Array]:
        """The tasks of the last hop of messages, or of the first; and which message each is of."""
        import numpy as np

        pieces = self.pieces[message]
        row = np.repeat(np.arange(len(message)), pieces)
        hop = np.where(is_last, self.parts[self.transfer[message]] - 1, 0)
        return row, self.start[message[row]] + hop[row] * pieces[row] + _ramp(pieces)

    def waits(self) -> tuple[Array, Array]:
        """Tasks, and what each waits for: a task that has ended or, plus the number of all tasks, begun."""
        import numpy as np

        tasks, needs = [], []

        def wait(message: Array, other: Array, applied: Any = False, held: Any = False, begun: int = 0) -> None:
            row, need = self._each_piece(other, applied)
            hop = np.where(held, self.parts[self.transfer[message]] - 1, 0)
            tasks.append((self.start[message] + hop * self.pieces[message])[row])
            needs.append(need + begun)

        wait(self.dep_message, self.dep_other, ~self.dep_sent, self.dep_held)
        relays = np.flatnonzero(self.hop > 0)
        tasks.append(relays)
        needs.append(relays - self.pieces[self.of[relays]])
        order = np.argsort(self.turn)
        sender = self.table["from"][self.transfer[order]]
        if self.endpoint.get("issue", "links") != "links":
            for before, after in _slots(order, sender, self.slot[order]):
                wait(after, before, begun=len(self.of))
        elif self.endpoint.get("pacing", "pipelined") == "stop-and-wait":
            before, after = _following(order, self.queue[self.start[order]])
            wait(after, before, applied=True)
        return np.concatenate(tasks), np.concatenate(needs)

    def layers(self, layers: Sequence[Layer], is_chained: bool) -> list[tuple[int, int, float, Array]]:
        """Rank, layer, time and what it waits for, of all layers of all ranks."""
        import numpy as np

        pieces = dealt(self.schedule, self.element)
        most = 1 + max(piece.chunk for piece in pieces)
        # Without chaining the first layer waits for all.
        sizes = [layer.bytes for layer in layers]
        parts = [[piece for piece, _ in part] for part in shared_out(pieces, sizes)]
        parts = parts if is_chained else [pieces, *([] for _ in layers[1:])]
        payloads = self.schedule.payloads
        transfer, lane = payloads["transfer"].astype(np.int64), payloads["lane"].astype(np.int64)
        count = self.table["chunks"][transfer]
        row, chunk = np.repeat(np.arange(len(count)), count), _ramp(count)
        message, carried = self.first[transfer[row]] + chunk, lane[row] * most + chunk
        receiver = self.table["to"][transfer[row]]
        found = []
        for rank in range(self.schedule.ranks):
            of_rank = receiver == rank
            for number, layer in enumerate(layers):
                wanted = [piece.lane * most + piece.chunk for piece in parts[number]]
                needed = np.unique(message[of_rank & np.isin(carried, wanted)])
                need = self._each_piece(needed, True)[1]
                found.append((rank, number, layer.compute_ns, need))
        return found


def _following(order: Array, group: Array) -> tuple[Array, Array]:
    """Messages of a group that follow each other, as two arrays."""
    import numpy as np

    by_group = np.argsort(group, kind="stable")
    same = np.flatnonzero(np.diff(group[by_group]) == 0)
    return order[by_group[same]], order[by_group[same + 1]]


def _slots(order: Array, sender: Array, slot: Array) -> Iterator[tuple[Array, Array]]:
    """Messages of one slot of a sender with each of the next, as two arrays."""
    import numpy as np

    for rank in np.unique(sender):
        mine = order[sender == rank]
        groups = np.split(mine, np.flatnonzero(np.diff(slot[sender == rank])) + 1)
        for before, after in pairwise(groups):
            yield np.tile(before, len(after)), np.repeat(after, len(before))


def flatten(
    schedule: Schedule,
    element_bytes: int,
    fabric: Fabric | None = None,
    layers: Sequence[Layer] = (),
    is_chained: bool = True,
) -> Program:
    """The program of a proven schedule. O(messages log messages + dependencies).

    Args:
        schedule: proven, on ``fabric`` if it is given.
        element_bytes: of a number: no message ends within one.
        fabric: whose links are the queues; without one, queues are pairs of ranks.
        layers: each rank computes after it, in order.
        is_chained: whether a layer waits for its own data only, rather than the first one for all.

    Raises:
        AntiphonError: ``too-large`` past 2^24 tasks; ``not-applicable`` if ranks share a node of the fabric.
    """
    import numpy as np

    flat = Flattening(schedule, element_bytes, fabric)
    count, table, transfer = len(flat.of), flat.table, flat.transfer[flat.of]
    place = np.empty(count, np.int64)
    place[flat.order] = np.arange(count)
    computing = flat.layers(layers, is_chained) if layers else []
    total = count + len(computing)
    waiting, needs = flat.waits()
    begun = needs >= count
    needed = place[needs - count * begun]
    begins = np.zeros(total, bool)
    begins[needed[begun]] = True
    waiting = np.concatenate((place[waiting], *(np.full(len(each[3]), count + i) for i, each in enumerate(computing))))
    needs = np.concatenate((needed + total * begun, *(place[need] for *_, need in computing)))
    by_task = np.lexsort((needs, waiting))
    tasks = np.zeros((total, len(TASK)), np.int64)
    column = {name: tasks[:, number] for number, name in enumerate(TASK)}
    bounds = np.searchsorted(waiting[by_task], np.arange(total + 1))
    column["waits"][:], column["waits_end"][:] = bounds[:-1], bounds[1:]
    column["begins"][:] = begins
    first, last = flat.hop == 0, flat.last
    column["from"][place] = np.where(first, table["from"][transfer], schedule.ranks)
    column["to"][place] = np.where(last, table["to"][transfer], schedule.ranks)
    column["adds"][place] = last & (table["reduces"][transfer] > 0)
    column["gate"][:], column["closes"][:] = -1, -1
    column["gate"][place] = np.where(first & (flat.piece == 0), flat.gate[flat.of] - 1, -1)
    column["closes"][place] = np.where(last, flat.gate[flat.of], -1)
    segments, of_task, stage_bytes = _placed(flat, place)
    bounds = np.searchsorted(of_task, np.arange(total + 1))
    column["segments"][:], column["segments_end"][:] = bounds[:-1], bounds[1:]
    queue = np.concatenate((flat.queue[flat.order], [len(flat.links) + rank for rank, *_ in computing]))
    queues = len(flat.links) + (schedule.ranks if layers else 0)
    message = np.full((total, 2), -1, np.int64)
    message[place] = np.stack((transfer, flat.chunk[flat.of]), 1)
    wire, compute = np.zeros(total), np.zeros(total)
    wire[place] = (flat.hop < flat.hops[transfer]) * (table["message_bytes"][transfer] / flat.pieces[flat.of])
    for number, (rank, layer, time_ns, _) in enumerate(computing, count):
        message[number], compute[number] = (-1, rank * len(layers) + layer), time_ns
    return Program(
        tasks,
        segments,
        needs[by_task].astype(np.int32),
        np.searchsorted(queue, np.arange(queues + 1)).astype(np.int32),
        tuple(flat.links) + ((),) * (queues - len(flat.links)),
        np.bincount(flat.gate[flat.of[last]], minlength=flat.gates).astype(np.uint32),
        schedule.ranks,
        stage_bytes,
        message,
        wire,
        compute,
    )


def _placed(flat: Flattening, place: Array) -> tuple[Array, Array, int]:
    """The segments in the order of their tasks, the task of each, and the bytes that relays need. In every memory a
    segment begins at the same place within 16 bytes, so that all can be moved by 16 bytes at once."""
    import numpy as np

    message = flat.seg_message
    before = np.concatenate(([0], np.cumsum(flat.seg_bytes)))[:-1]
    begins = np.searchsorted(message, message)
    within = before - before[begins] if len(message) else before  # first byte within the message
    size = np.where(flat.pieces[message] > 1, PIECE_BYTES, 1 << 50)
    first = within // size
    count = (within + flat.seg_bytes - 1) // size - first + 1
    row = np.repeat(np.arange(len(message)), count)
    piece, end = first[row] + _ramp(count), (within + flat.seg_bytes)[row]
    low, high = np.maximum(piece * size[row], within[row]), np.minimum((piece + 1) * size[row], end)
    start, bytes, message = flat.seg_start[row] + low - within[row], high - low, message[row]
    # Once for each hop; all but the first read what the hop before left in the memory of relays.
    parts = flat.parts[flat.transfer[message]]
    row, hop = np.repeat(np.arange(len(message)), parts), _ramp(parts)
    at, length = start[row], bytes[row]
    task = place[flat.start[message[row]] + hop * flat.pieces[message[row]] + piece[row]]
    stays = hop < parts[row] - 1
    room = np.where(stays, -(-length // 16) * 16 + 16, 0)
    staged = np.cumsum(room) - room + at % 16
    source = np.where(hop > 0, np.concatenate(([0], staged[:-1])) if len(staged) else staged, at)
    target = np.where(stays, staged, at)
    order = np.argsort(task, kind="stable")
    return np.stack((source, target, length), 1)[order], task[order], int(room.sum())


def in_words(program: Program, task: int) -> str:
    """What a task is."""
    transfer, chunk = program.message[task].tolist()
    if transfer < 0:
        return f"layer task {chunk}"
    start, end = program.column("from")[task], program.column("to")[task]
    ends = ["relay" if each == program.ranks else f"rank {each}" for each in (start, end)]
    return f"transfer {transfer} ({ends[0]} to {ends[1]}), chunk {chunk}"


def stalled(program: Program, ended: Array) -> str:
    """What a run that stalled waits for, in words, by whether each task has ended."""
    import numpy as np

    count = len(program.tasks)
    left = np.flatnonzero(~ended)
    for task in left.tolist():
        waits = program.waits[program.column("waits")[task] : program.column("waits_end")[task]]
        missing = [int(each) for each in waits if each < count and not ended[each]]
        if missing:
            return f"{in_words(program, task)} waited for {in_words(program, missing[0])}"
    return f"{in_words(program, int(left[0]))} did not end" if len(left) else "blocks did not start together"
