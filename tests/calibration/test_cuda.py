"""Measuring a GPU: by a PyTorch of numpy arrays, whose streams do everything at once."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon import AntiphonError

SMS = 80


class Tensor:
    """What is used of a tensor."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(self.array[part])

    def view(self, *shape: int) -> Tensor:
        return Tensor(self.array.reshape(shape))

    def split(self, size: int) -> list[Tensor]:
        return [self[start : start + size] for start in range(0, len(self), size)]

    def fill_(self, value: float) -> None:
        FAKE.do("write", lambda: self.array.fill(value))

    def copy_(self, other: Tensor) -> None:
        FAKE.do("copy", lambda: np.copyto(self.array, other.array))

    def add_(self, other: Tensor) -> None:
        FAKE.do("reduce", lambda: np.add(self.array, other.array, out=self.array))


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, _stream: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        assert self.time

    def elapsed_time(self, later: Event) -> float:
        return (later.time - self.time) * 1e3


class Graph:
    """What was called while it was recorded, to be done at every replay."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Callable[[], object]]] = []

    def replay(self) -> None:
        assert self.calls
        for work, call in self.calls:
            FAKE.do(work, call)


class Fake:
    """The module; notes which work ran in which stream."""

    float32 = np.float32
    __version__ = "0.0"
    version = SimpleNamespace(cuda="0")

    def __init__(self) -> None:
        self.streams: dict[str, set[int]] = defaultdict(set)
        self.threads: dict[int, int] = {}
        self.recording: Graph | None = None
        self.cuda = SimpleNamespace(
            Event=Event,
            Stream=lambda: SimpleNamespace(synchronize=lambda: None),
            stream=self.stream,
            CUDAGraph=Graph,
            graph=self.graph,
            is_available=lambda: True,
            current_device=lambda: 0,
            synchronize=lambda: None,
            mem_get_info=lambda: (1 << 30, 1 << 31),
            get_device_properties=lambda _: SimpleNamespace(
                name="Fake", multi_processor_count=SMS, L2_cache_size=1 << 20
            ),
            _sleep=lambda _cycles: time.sleep(0.001),
        )

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        self.threads[get_ident()] = id(stream)
        yield

    @contextmanager
    def graph(self, graph: Graph, stream: Any) -> Iterator[None]:
        self.recording = graph
        with self.stream(stream):
            yield
        self.recording = None

    def do(self, work: str, call: Callable[[], object]) -> None:
        if self.recording is not None:
            self.recording.calls.append((work, call))
            return
        self.streams[work].add(self.threads[get_ident()])
        call()

    def ones(self, shape: Any, dtype: Any, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(np.ones(shape, dtype))

    empty = ones

    def empty_like(self, other: Tensor) -> Tensor:
        return Tensor(np.empty_like(other.array))

    def randint(self, high: int, size: Any, device: str) -> Tensor:
        return Tensor(np.random.default_rng(1).integers(0, high, size))

    def sum(self, of: Tensor, dim: int, out: Tensor) -> None:
        self.do("read", lambda: np.sum(of.array, axis=dim, out=out.array))

    def mm(self, one: Tensor, other: Tensor, out: Tensor) -> None:
        self.do("gemm", lambda: np.matmul(one.array, other.array, out=out.array))

    def index_select(self, rows: Tensor, dim: int, indices: Tensor, out: Tensor) -> None:
        self.do("lookup", lambda: np.take(rows.array, indices.array, axis=dim, out=out.array, mode="clip"))


FAKE = Fake()


def measure() -> antiphon.Calibration:
    return antiphon.calibrate("cuda", seconds=0.01, size="64KiB", gemm=16)


def test_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", FAKE)
    calibration = measure()
    machine = calibration.machine
    assert (machine.device, machine.name, machine.cores, machine.cache_bytes) == ("cuda", "Fake", SMS, 1 << 20)
    assert machine.library == "torch 0.0, CUDA 0"
    assert machine.clock_ghz
    assert calibration.core_gb_per_s == pytest.approx(64 * machine.clock_ghz, rel=0.01)
    assert calibration.others is None
    rows = calibration.measured.rows()
    assert len(rows) == 6 + 2 * 8
    assert {row["cores"] for row in rows} == {SMS}
    assert all(row["rate"] > 0 for row in rows)
    assert f"total_sms={SMS},sms=" in calibration.endpoint
    communication = {FAKE.streams[work].pop() for work in ("read", "write", "copy", "reduce")}
    computation = {FAKE.streams[work].pop() for work in ("gemm", "lookup")}
    assert len(communication) == len(computation) == 1
    assert communication != computation
    assert not any(FAKE.streams.values())


def test_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        AntiphonError, match=r"needs PyTorch; install it with: pip install 'antiphon\[torch\]'"
    ) as caught:
        measure()
    assert caught.value.code == "missing-extra"


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(__version__="2.9", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", module)
    with pytest.raises(AntiphonError, match=r"PyTorch 2.9 finds no GPU here; measure the CPU") as caught:
        measure()
    assert caught.value.code == "not-applicable"
