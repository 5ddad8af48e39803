"""A fabric inside one GPU: a link is a thread block on an SM of its own, which keeps its rate by the SM's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from antiphon._core import Fabric, Schedule, ScheduleBuilder, System, simulate
from antiphon.errors import AntiphonError
from antiphon.execution.cuda.carrier import Loaded, beat
from antiphon.execution.cuda.device import SHAPES, Gpu, compiled
from antiphon.execution.cuda.program import TASK, Layer, Program, flatten
from antiphon.execution.numbers import ELEMENTS
from antiphon.execution.result import Emulated, emulated_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

SPIN_CYCLES = 100_000_000
HOPS, HOP_RUNS = 32, 5
PROBE_BYTES = 1 << 20
"""What every link carries at once to see whether it has its rate."""
RATE_TOLERANCE = 0.05
"""How far a link may be from its rate under full load."""


@dataclass(frozen=True)
class GpuRun:
    """One run.

    Attributes:
        time_ns: from the first block's start to the end of the last message, or layer.
        wrong: elements that are not what the collective defines.
        exchange_ns: until the last message was applied.
        rank_ns: of shape (ranks,): until the last message to each rank was applied, or its last layer was computed.
    """

    time_ns: float
    wrong: int
    exchange_ns: float
    rank_ns: Array


class GpuFabric:
    """A fabric inside a GPU, its clock and the latency of a hop measured.

    Attributes:
        hop_ns: latency of a link, beside its bytes over its rate: a flag is seen, data and the next flag are written.
        system: on which runs are predicted: ``ideal`` with this rate and latency, and an interface for each link.
        shares: least and largest share of its rate that a link had while all were loaded.
    """

    def __init__(self, gpu: Gpu, fabric: Fabric, gb_per_s: float, timeout_s: float = 8.0) -> None:
        """Measures the GPU's clock, the latency of a hop, and all links under full load.

        Raises:
            AntiphonError: ``not-applicable`` for links with rates of their own, or if the memory cannot carry all links
                at their rate; ``too-large`` for more links than SMs.
        """
        check_rates(fabric)
        self.gpu, self.fabric, self._timeout_s = gpu, fabric, timeout_s
        self._cycles_per_ns = self._clock()
        self._cycles_per_byte = self._cycles_per_ns / gb_per_s
        self.hop_ns = self._hop()
        ideal = System("ideal").with_(interface_assignment="port")
        self.system = ideal.with_(link_rate_gb_per_s=gb_per_s, link_latency_ns=self.hop_ns)
        self.shares = self._shares(gb_per_s)
        if self.shares[0] < 1 - RATE_TOLERANCE:
            what = f"{gpu.name} gives links {self.shares[0]:.0%} of {gb_per_s:g} GB/s while all are loaded"
            raise AntiphonError(f"{what}: lower --link-rate", "not-applicable")

    def _clock(self) -> float:
        """Cycles of an SM in a ns."""
        import numpy as np

        gpu = self.gpu
        kernel = gpu.kernel("spin", compiled(gpu.architecture, "float32", SHAPES[0]))
        mark, found = gpu.mark(), np.zeros(1, np.int64)
        address = gpu.upload(found)
        for _ in range(2):  # at first the clock is still low
            gpu.launch(kernel, 1, 1, [np.array([SPIN_CYCLES]), np.array([address])], together=False)
            gpu.wait()
        gpu.download(address, found)
        gpu.release(mark)
        return SPIN_CYCLES / float(found[0])

    def _hop(self) -> float:
        """Of a message of one number that goes from rank to rank, in ns."""
        hops = min(HOPS, self.gpu.processors)
        line = Fabric(f"ring:{hops + 1}")
        builder = ScheduleBuilder(line, "broadcast", 4, root=0)
        lane = builder.lane(0, 4)
        for rank in range(hops):
            builder.copy(rank, rank + 1, lane, rank)
        schedule = builder.finish()
        loaded = Loaded([self.gpu], flatten(schedule, 4, line), schedule, "float32", self._timeout_s, is_paced=True)
        found = []
        for _ in range(HOP_RUNS):
            loaded.run()
            ended, _ = loaded.times()
            found.append(float(ended.max() - ended.min()) / (hops - 1))
        loaded.close()
        return median(found)

    def _shares(self, gb_per_s: float) -> tuple[float, float]:
        """Least and largest share of its rate that a link had while every link of the fabric carried data."""
        import numpy as np

        links = len(self.fabric.links["from"])
        program = _probe(links)
        schedule = _nothing(links * PROBE_BYTES)
        loaded = Loaded([self.gpu], program, schedule, "float32", self._timeout_s, is_paced=True)
        loaded.set_cycles((program.wire_bytes * self._cycles_per_byte).astype(np.int64))
        loaded.run()
        ended, began = loaded.times()
        loaded.close()
        shares = PROBE_BYTES / gb_per_s / (ended - began)
        return float(shares.min()), float(shares.max())

    def loaded(
        self, schedule: Schedule, element: str, layers: Sequence[Layer] = (), *, is_chained: bool = True
    ) -> LoadedFabric:
        """A proven schedule that is ready to run here, with the layers that ranks compute after it."""
        import numpy as np

        program = flatten(schedule, ELEMENTS[element], self.fabric, layers, is_chained)
        loaded = Loaded([self.gpu], program, schedule, element, self._timeout_s, is_paced=True)
        speed = self.fabric.links["speed"]
        # What has no link takes no time but that of memory.
        widths = np.array([speed[list(links)].sum() if links else np.inf for links in program.links])
        per_task = np.repeat(widths, np.diff(program.queues))
        cycles = program.wire_bytes * self._cycles_per_byte / per_task + program.compute_ns * self._cycles_per_ns
        loaded.set_cycles(np.rint(cycles).astype(np.int64))
        return LoadedFabric(loaded, schedule)


class LoadedFabric:
    """A schedule on a fabric inside a GPU."""

    def __init__(self, loaded: Loaded, schedule: Schedule) -> None:
        self._loaded, self._schedule = loaded, schedule
        self.close = loaded.close

    def run(self, progress: Callable[[], object] | None = None) -> GpuRun:
        """Runs it, and compares every element.

        Raises:
            AntiphonError: ``stalled``.
        """
        import numpy as np

        self._loaded.run(progress=progress)
        ended, began = self._loaded.times()
        program = self._loaded.program
        times = ended - began.min()
        is_layer = program.message[:, 0] < 0
        layers = int(is_layer.sum()) // self._schedule.ranks
        rank = np.where(is_layer, program.message[:, 1] // max(layers, 1), program.column("to"))
        by_rank = np.zeros(program.ranks + 1, np.int64)
        np.maximum.at(by_rank, rank, times)
        exchange = float(times[~is_layer].max(initial=0))
        return GpuRun(float(times.max(initial=0)), self._loaded.wrong(), exchange, by_rank[:-1])


def emulate_on_gpu(
    fabric: Fabric,
    schedules_for: Callable[[System], list[Schedule]],
    bits_per_s: int,
    repeat: int,
    timeout_s: float,
    progress: Callable[[float], object] | None = None,
) -> Emulated:
    """``antiphon.emulate`` in the first GPU. ``schedules_for`` makes schedules once the latency of a hop is known.

    Raises:
        AntiphonError: as ``GpuFabric``; ``missing-extra``, ``not-applicable`` without a GPU; ``stalled``.
    """
    check_rates(fabric)
    gpu, rows = Gpu(0), []
    try:
        there = GpuFabric(gpu, fabric, bits_per_s / 8e9, timeout_s)
        schedules = schedules_for(there.system)
        for number, schedule in enumerate(schedules):
            predicted_ns = simulate(fabric, schedule, there.system).time_ns
            loaded = there.loaded(schedule, "int32")
            runs = []
            for run in range(1 + repeat):
                share = (number + run / (1 + repeat)) / len(schedules)
                runs.append(loaded.run(beat(progress, share)))
            loaded.close()
            correct = not any(run.wrong for run in runs)
            rows.append(emulated_row(schedule, [run.time_ns for run in runs[1:]], correct, predicted_ns))
        return Emulated.of(fabric, schedules[0], bits_per_s, repeat, there.shares, rows, gpu.name, there.hop_ns)
    finally:
        gpu.close()


def check_rates(fabric: Fabric) -> None:
    """Refuses links with rates of their own, beside slowed ones."""
    if any(rate == rate for name in ("rate_gb_per_s", "latency_ns") for rate in fabric.links[name].tolist()):
        message = f"{fabric.name} has links with rates or latencies of their own; give --link-rate and a fabric without"
        raise AntiphonError(message, "not-applicable")


def _nothing(bytes: int) -> Schedule:
    """Two ranks with so much data each."""
    builder = ScheduleBuilder(Fabric("ring:2"), "broadcast", bytes, root=0)
    builder.copy(0, 1, builder.lane(0, bytes), 0)
    return builder.finish()


def _probe(links: int) -> Program:
    """A message for each of so many links, from one rank to another, all at once."""
    import numpy as np

    numbers = np.arange(links)
    tasks = np.zeros((links, len(TASK)), np.int64)
    columns: dict[str, Any] = {"segments": numbers, "segments_end": numbers + 1, "to": 1, "gate": -1, "closes": -1}
    for name, values in columns.items():
        tasks[:, TASK.index(name)] = values
    start = numbers * PROBE_BYTES
    none = np.zeros(0, np.int32)
    return Program(
        tasks,
        np.stack((start, start, np.full(links, PROBE_BYTES)), 1),
        none,
        np.arange(links + 1, dtype=np.int32),
        ((),) * links,
        none.astype(np.uint32),
        2,
        0,
        np.stack((numbers * 0, numbers), 1),
        np.full(links, float(PROBE_BYTES)),
        np.zeros(links),
    )
