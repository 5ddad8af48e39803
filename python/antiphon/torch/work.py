"""What a call on the process group gives back: its end, its failure, its future."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from antiphon.torch.worker import Worker

Request: TypeAlias = Callable[[], Any]
"""What makes an operation of the carrier; called by the thread that drives it."""
Steps: TypeAlias = Generator[Sequence[Request], list[Any], None]
"""A call on the process group, cut where it waits: it gives requests, and gets their operations when they are done."""

UNLIMITED = timedelta(0)
"""How PyTorch says that `wait` has no limit of its own."""
_futures = threading.Lock()


def _value(future: Any) -> Any:
    return future.value()


class Finished(dist.Work):  # type: ignore[misc]  # torch is not there when types are checked
    """A call that was done when it came back."""

    def __init__(self, tensors: list[Any]) -> None:
        super().__init__()
        self.tensors = tensors

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        """Nothing to wait for."""
        return True

    def get_future(self) -> Any:
        """The future of the tensors of the result."""
        future = _future(self.tensors)
        future.set_result(self.tensors)
        return future

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return True

    is_success = is_completed

    def exception(self) -> Exception | None:
        """Why it failed."""
        return None

    def result(self) -> list[Any]:
        """The tensors of the result."""
        return self.tensors

    def synchronize(self) -> None:
        """Nothing to wait for."""

    block_current_stream = synchronize
    getFuture = get_future  # what PyTorch's C++ half looks for


class Work(dist.Work):  # type: ignore[misc]
    """A call that may be under way.

    Attributes:
        name: what is done, and where, for people.
        tensors: what the future gives.
        steps: what is to be done; set once it is known.
        hint: what the carrier waited for when the time was over.
        waiting: the operations that its next step waits for; used by the thread that drives.
        told: called with parts of its memory that are final, by whoever drives.
        arrived: makes the current CUDA stream wait for the results, once there are some.
    """

    def __init__(self, worker: Worker, name: str, tensors: list[Any], limit_s: float) -> None:
        super().__init__()
        self.worker, self.name, self.tensors, self.limit_s = worker, name, tensors, limit_s
        self.steps = _nothing()
        self.deadline_s = time.monotonic() + limit_s
        self.requests: Sequence[Request] | None = None
        self.waiting: list[Any] = []
        self.done = False
        self.error: Exception | None = None
        self.source, self.hint = -1, ""
        self.over = threading.Event()
        self.future: Any = None
        self.outcome: Any = None
        self.told: Callable[[Sequence[int]], None] | None = None
        self.arrived: Callable[[], None] | None = None

    def prepare(self) -> bool:
        """Takes it to its first request, in the thread of the call; whether there is one."""
        try:
            while not self.requests:
                self.requests = next(self.steps)
        except StopIteration:
            self.end()
        return not self.done

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        """Waits until it is done, at most ``timeout``; 0 has no limit but that of the call.

        Raises:
            torch.distributed.DistBackendError: it failed, or the time is over.
        """
        if not self.done:
            self.worker.finish(self, timeout.total_seconds() if timeout > UNLIMITED else None)
        if self.error is not None:
            raise self.error
        self.synchronize()
        return True

    def end(self) -> None:
        """Says that it has ended. Whoever calls it then calls `settle`, without the lead."""
        with _futures:
            self.done = True
        self.steps.close()
        self.waiting = []
        self.over.set()

    def settle(self) -> None:
        """Runs what was chained to the future, if it was asked for before the end."""
        if self.future is not None:
            self._settle()

    def get_future(self) -> Any:
        """The future of the tensors of the result."""
        with _futures:
            made = self.future is None
            if made:
                self.future = _future(self.tensors)
                # What Python sets as its exception is a value for PyTorch's C++, which takes it for tensors; what a
                # callback raises is an error to both.
                self.outcome = self.future.then(_value)
            done = self.done
        if made and done:
            self._settle()
        return self.outcome

    def _settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
            return
        self.synchronize()
        self.future.set_result(self.tensors)

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self.done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.done and self.error is None

    def exception(self) -> Exception | None:
        """Why it failed."""
        return self.error

    def result(self) -> list[Any]:
        """The tensors of the result."""
        return self.tensors

    def synchronize(self) -> None:
        """Makes the current CUDA stream wait for the results; nothing for CPU tensors."""
        if self.arrived is not None:
            self.arrived()

    def block_current_stream(self) -> None:
        """Waits: it is the host that drives the network."""
        self.wait()

    def source_rank(self) -> int:
        """The rank of the group that a received message came from."""
        return self.source

    _source_rank = source_rank
    getFuture = get_future


class Batch(dist.Work):  # type: ignore[misc]
    """The calls between ``start_coalescing`` and ``end_coalescing``."""

    def __init__(self, works: list[Any]) -> None:
        super().__init__()
        self.works = works

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        """Waits for each, at most ``timeout``.

        Raises:
            torch.distributed.DistBackendError: one failed, or the time is over.
        """
        for work in self.works:
            work.wait(timeout)
        return True

    def get_future(self) -> Any:
        """The future of the futures of all."""
        return torch.futures.collect_all([work.get_future() for work in self.works])

    def is_completed(self) -> bool:
        """Whether all have ended."""
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        """Whether all have ended well."""
        return all(work.is_success() for work in self.works)

    def exception(self) -> Exception | None:
        """Why the first that failed did."""
        return next((work.exception() for work in self.works if work.exception() is not None), None)

    def result(self) -> list[Any]:
        """The tensors of all."""
        return [tensor for work in self.works for tensor in work.result()]

    def synchronize(self) -> None:
        """Makes the current CUDA stream wait for the results."""
        for work in self.works:
            work.synchronize()

    def block_current_stream(self) -> None:
        """Waits: it is the host that drives the network."""
        self.wait()

    getFuture = get_future


def in_turn(parts: Iterable[Steps]) -> Steps:
    """Parts of a call, one after the other. All are planned and counted when the call is made, in its thread: later
    they might be at another place than at other ranks, and whoever drives must not wait for an agreement.
    """
    begun = [(part, next(part, None)) for part in parts]
    for part, requests in begun:
        while requests is not None:
            operations = yield requests
            try:
                requests = part.send(operations)
            except StopIteration:
                requests = None


def _nothing() -> Steps:
    yield []


def _future(tensors: list[Any]) -> Any:
    """A future that may carry these tensors."""
    devices = {tensor.device for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.is_cuda}
    return torch.futures.Future(devices=sorted(devices, key=str) or None)
