"""A carrier and a planner in Python, over loopback: the same interface as those of the core, nothing of their speed."""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from antiphon.errors import AntiphonError


@dataclass
class Plan:
    collective: str
    bytes: int
    root: int
    nodes: list[int]
    rank: int
    hash: int = 0

    @property
    def memory_bytes(self) -> int:
        return self.bytes * (len(self.nodes) if self.collective == "all-to-all" else 1)

    def touched(self) -> list[tuple[int, int]]:
        if self.collective != "all-to-all":
            return [(0, self.bytes)]
        own, step = self.rank, self.bytes // len(self.nodes)
        parts = [
            (rank * self.bytes + own * step, rank * self.bytes + (own + 1) * step) for rank in range(len(self.nodes))
        ]
        parts[own] = (own * self.bytes, (own + 1) * self.bytes)
        return parts


@dataclass
class Plans:
    nodes: list[int]
    rank: int
    agree: Any = None

    def plan(self, collective: str, size: int, root: int = 0) -> Plan:
        return Plan(collective, size, root, self.nodes, self.rank)

    def close(self) -> None:
        pass


@dataclass
class Planner:
    node: int

    def group(self, nodes: list[int]) -> Plans:
        return Plans(list(nodes), list(nodes).index(self.node))

    def close(self) -> None:
        pass


@dataclass(eq=False)
class Operation:
    carrier: Any
    key: Any
    data: Any
    plan: Any = None
    element: str = ""
    operation: str = ""
    done: bool = False
    source: int = -1
    failure: str | None = None
    came: dict[int, bytes] = field(default_factory=dict)


TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
HOW = {"sum": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum}
HOW |= {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}


class Carrier:
    """All nodes joined with all; every rank gets all memories and computes the whole result."""

    def __init__(self, store: Any, node: int, size: int) -> None:
        self.node = node
        listener = socket.create_server(("127.0.0.1", 0), backlog=size)
        store.set(f"address/{node}", str(listener.getsockname()[1]))
        self.sockets: dict[int, socket.socket] = {}
        for other in range(node):
            store.wait([f"address/{other}"], timedelta(seconds=60))
            self.sockets[other] = socket.create_connection(("127.0.0.1", int(store.get(f"address/{other}"))))
            self.sockets[other].sendall(struct.pack("i", node))
        for _ in range(node + 1, size):
            connection, _ = listener.accept()
            (other,) = struct.unpack("i", connection.recv(4))
            self.sockets[other] = connection
        listener.close()
        for each in self.sockets.values():
            each.setblocking(False)
        self.out: dict[int, bytearray] = defaultdict(bytearray)
        self.partial: dict[int, bytearray] = defaultdict(bytearray)
        self.came: dict[Any, Any] = defaultdict(deque)
        self.order: deque[Any] = deque()
        self.woken, self.bell = socket.socketpair()
        self.woken.setblocking(False)

    def collective(self, plan: Any, group: int, sequence: int, memory: Any, element: str, operation: str) -> Operation:
        for start, end in plan.touched():
            held = sum(max(0, min(end, first + data.nbytes) - max(start, first)) for first, data in memory)
            assert held == end - start, (plan, memory)
        assert all(a[0] + a[1].nbytes <= b[0] for a, b in pairwise(memory)), memory
        whole = np.zeros(plan.memory_bytes, dtype=np.uint8)
        for first, data in memory:
            assert data.dtype == np.uint8
            whole[first : first + data.nbytes] = data
        key = ("collective", group, sequence)
        for node in plan.nodes:
            if node != self.node:
                self._post(node, key, (plan.collective, plan.bytes, plan.root, whole.tobytes()))
        found = Operation(self, key, memory, plan, element, operation)
        found.came[plan.rank] = whole.tobytes()
        return found

    def send(self, group: int, to: int, tag: int, data: Any) -> Operation:
        self._post(to, ("message", group, tag), data.tobytes())
        return Operation(self, ("sent", to), data)

    def receive(self, group: int, source: int | None, tag: int, data: Any) -> Operation:
        return Operation(self, ("message", group, tag), data, plan=source)

    def _post(self, node: int, key: Any, data: Any) -> None:
        body = pickle.dumps((key, data))
        self.out[node] += struct.pack("q", len(body)) + body

    def _move(self, wait_s: float) -> bool:
        reading = {each: node for node, each in self.sockets.items()}
        writing = [self.sockets[node] for node, data in self.out.items() if data and node in self.sockets]
        ready, free, _ = select.select([*reading, self.woken], writing, [], wait_s)
        for each in free:
            rest = self.out[reading[each]]
            del rest[: each.send(rest[:65536])]
        for each in ready:
            if each is self.woken:
                self.woken.recv(4096)
                return True
            node = reading[each]
            try:
                data = each.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                del self.sockets[node]
            held = self.partial[node]
            held += data
            while len(held) >= 8 and len(held) >= 8 + struct.unpack_from("q", held)[0]:
                size = 8 + struct.unpack_from("q", held)[0]
                key, body = pickle.loads(held[8:size])
                del held[:size]
                self.came[key].append((node, body))
        return False

    def _look(self, operation: Operation) -> bool:
        if operation.key[0] == "sent":
            operation.done = not self.out[operation.key[1]] or operation.key[1] not in self.sockets
            return operation.done
        waiting = self.came[operation.key]
        if operation.key[0] == "message":
            for number, (node, body) in enumerate(waiting):
                if operation.plan in (None, node):
                    assert len(body) == operation.data.nbytes, (len(body), operation.data.nbytes)
                    operation.data[:] = np.frombuffer(body, dtype=np.uint8)
                    operation.source, operation.done = node, True
                    del waiting[number]
                    return True
            needed = [operation.plan] if operation.plan is not None else []
        else:
            plan = operation.plan
            while waiting:
                node, (collective, size, root, body) = waiting.popleft()
                assert (collective, size, root) == (plan.collective, plan.bytes, plan.root), (
                    collective,
                    size,
                    root,
                    plan,
                )
                operation.came[plan.nodes.index(node)] = body
            if len(operation.came) == len(plan.nodes):
                self._compute(operation)
                operation.done = True
                return True
            needed = [node for rank, node in enumerate(plan.nodes) if rank not in operation.came]
        gone = [node for node in needed if node != self.node and node not in self.sockets]
        if gone:
            operation.failure, operation.done = f"rank {gone[0]} is gone", True
        return bool(gone)

    def _compute(self, operation: Operation) -> None:
        plan = operation.plan
        n, rank, size = len(plan.nodes), plan.rank, plan.bytes
        whole = [np.frombuffer(operation.came[each], dtype=np.uint8).copy() for each in range(n)]
        step = size // n
        result = whole[rank]
        if plan.collective in ("all-reduce", "reduce", "reduce-scatter"):
            kind = TYPES.get(operation.element) or getattr(torch, operation.element)
            total = torch.from_numpy(whole[0]).view(kind)
            for each in whole[1:]:
                total = HOW[operation.operation](total, torch.from_numpy(each).view(kind))
            total = total.view(torch.uint8).numpy()
            result = np.random.default_rng().integers(0, 255, size, dtype=np.uint8)  # the rest is scratch
            if plan.collective == "all-reduce" or (plan.collective == "reduce" and rank == plan.root):
                result = total
            elif plan.collective == "reduce-scatter":
                result[rank * step : (rank + 1) * step] = total[rank * step : (rank + 1) * step]
        elif plan.collective == "broadcast":
            result = whole[plan.root]
        elif plan.collective == "all-gather":
            result = np.concatenate([whole[each][each * step : (each + 1) * step] for each in range(n)])
        elif plan.collective == "all-to-all":
            for each in range(n):
                first = each * size + rank * step
                result[first : first + step] = whole[each][first : first + step]
        for first, data in operation.data:
            data[:] = result[first : first + data.nbytes]

    def drive(self, operations: list[Operation], timeout_s: float | None) -> None:
        assert operations
        until_s = time.monotonic() + (1e9 if timeout_s is None else timeout_s)
        while True:
            found = [each for each in operations if each.done or self._look(each)]
            while any(self.out[node] for node in self.sockets) and found:
                self._move(0.0)
            if found:
                return
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise AntiphonError(f"waited for {operations[0].key}", "time-limit")
            if self._move(min(left_s, 1.0)):
                return

    def wake(self) -> None:
        self.bell.send(b"x")

    def close(self) -> None:
        for each in self.sockets.values():
            each.close()
        self.sockets = {}

    def give_up(self, operation: Operation) -> None:
        operation.failure = "given up"

    def failures(self) -> list[str]:
        return []


def joined(store: Any, rank: int, size: int, timeout_s: float) -> tuple[Any, Any]:
    """Stands in for `antiphon.torch.world.joined`."""
    return Carrier(store, rank, size), Planner(rank)
