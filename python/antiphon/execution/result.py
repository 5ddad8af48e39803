"""What a collective took on real data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from antiphon._core import bus_factor
from antiphon.results import Result, Table
from antiphon.results.record import record, says

if TYPE_CHECKING:
    from antiphon._core import Fabric, Schedule
    from antiphon.execution.measure import Measured, Plan, Timing


@record
class Measurement(Result):
    """A collective, run on real data at one size or several.

    >>> import antiphon
    >>> found = antiphon.measure("mesh:2x2", "ring", sizes="4KiB", transport="threads")
    >>> found.runs["bytes"].tolist(), found.correct
    ([4096], True)
    """

    fabric: str = says("its specification or name.")
    algorithm: str = says("what made the schedules, with options.")
    collective: str = says("what they do.")
    root: int | None = says("rank that a Broadcast starts from, or a Reduce ends at; else None.")
    ranks: int = says("how many processes, or buffers of threads, take part.")
    element: str = says("type of the numbers.")
    transport: str = says("what carried the messages.")
    warmup: int = says("runs before the timed ones.")
    iterations: int = says("timed runs.")
    runs: Table = says(
        "a row for each size: ``bytes`` of the full buffer and ``elements`` in it; ``correct``, ``wrong`` elements,"
        " ``time_ns``, ``algorithm_bandwidth_gb_per_s`` and ``bus_bandwidth_gb_per_s`` out of place, and the same"
        " four ``in_place.``; ``predicted_ns`` by a calibration, else NaN."
    )

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        schedules: Sequence[Schedule],
        plan: Plan,
        transport: str,
        measured: Sequence[Measured],
        predicted_ns: Sequence[float | None],
    ) -> Measurement:
        """Of what was measured of schedules, one for each."""
        from antiphon.execution.numbers import ELEMENTS

        first, rows = schedules[0], []
        for schedule, each, predicted in zip(schedules, measured, predicted_ns, strict=True):
            row: dict[str, Any] = {"bytes": schedule.bytes, "elements": schedule.bytes // ELEMENTS[plan.element]}
            row["correct"] = each.out_of_place.wrong + each.in_place.wrong == 0
            row |= _figures(schedule, each.out_of_place)
            row["predicted_ns"] = predicted
            row |= {f"in_place.{name}": value for name, value in _figures(schedule, each.in_place).items()}
            rows.append(row)
        return cls(
            fabric=fabric.name,
            algorithm=first.algorithm,
            collective=first.collective,
            root=first.root,
            ranks=first.ranks,
            element=plan.element,
            transport=transport,
            warmup=plan.warmup,
            iterations=plan.iterations,
            runs=Table.of_rows(rows),
        )

    def __repr__(self) -> str:
        verdict = "correct" if self.correct else "WRONG"
        return (
            f"<Measurement {self.algorithm} on {self.fabric} by {self.transport}: {self.runs.height} sizes, {verdict}>"
        )

    @property
    def correct(self) -> bool:
        """Whether all ranks ended with what the collective defines, at every size."""
        return bool(self.runs["correct"].all())


def _figures(schedule: Schedule, timing: Timing) -> dict[str, Any]:
    bandwidth = schedule.bytes / timing.time_ns
    factor = 1.0
    if schedule.matrix_bytes is None:
        factor = bus_factor(schedule.collective, schedule.ranks - len(schedule.excluded))
    return {
        "wrong": timing.wrong,
        "time_ns": timing.time_ns,
        "algorithm_bandwidth_gb_per_s": bandwidth,
        "bus_bandwidth_gb_per_s": bandwidth * factor,
    }


@record
class Emulated(Result):
    """Collectives on an emulated fabric, measured beside predicted.

    >>> found = antiphon.emulate("mesh:2x2", "ring", bytes="1MiB", link_rate="20mbit")  # doctest: +SKIP
    >>> found.runs["measured_ns"] / found.runs["predicted_ns"]  # doctest: +SKIP
    array([1.01])
    """

    fabric: str = says("its specification or name.")
    collective: str = says("what they do.")
    root: int | None = says("rank that a Broadcast starts from, or a Reduce ends at; else None.")
    device: str = says("``namespaces``, or the name of the GPU that the fabric was in.")
    link_rate_bit_per_s: int = says("rate of every link, each way, with all headers.")
    hop_ns: float | None = says("latency of a link that was measured first and predicted with; None in namespaces.")
    slowest_link: float = says("least share of its rate that a link had under full load.")
    fastest_link: float = says("the largest such share.")
    repeat: int = says("runs of each algorithm.")
    runs: Table = says(
        "a row for each algorithm: ``algorithm``, ``bytes``, ``correct``, ``measured_ns``, the median,"
        " ``predicted_ns``, ``least_ns`` and ``most_ns`` of the runs."
    )

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        schedule: Schedule,
        rate: int,
        repeat: int,
        shares: tuple[float, float],
        rows: Sequence[dict[str, Any]],
        device: str = "namespaces",
        hop_ns: float | None = None,
    ) -> Emulated:
        """Of the runs of schedules for the same collective."""
        task, table = (schedule.collective, schedule.root), Table.of_rows(rows)
        return cls(fabric.name, *task, device, rate, hop_ns, *shares, repeat, table)

    def __repr__(self) -> str:
        verdict = "correct" if self.correct else "WRONG"
        return f"<Emulated {self.collective} on {self.fabric}: {self.runs.height} algorithms, {verdict}>"

    @property
    def correct(self) -> bool:
        """Whether all ranks ended with what the collective defines, in every run."""
        return bool(self.runs["correct"].all())


@record
class ChainMeasurement(Result):
    """Iterations of training whose next forward pass runs behind the exchange of gradients, or does not.

    >>> import antiphon
    >>> found = antiphon.measure_chain("ring:2", "shapes.csv")  # doctest: +SKIP
    >>> found.runs["iteration_us"]  # doctest: +SKIP
    array([7251.3, 6812.9, 6433.1, 6125.8, 7090.2])
    """

    fabric: str = says("its specification or name.")
    model: str = says("name or file of the layers.")
    transport: str = says("what carried the messages.")
    ranks: int = says("ranks that train.")
    layers: int = says("layers of the model.")
    gradient_bytes: int = says("gradients of all layers.")
    compute_us: float = says("forward and backward pass, as declared.")
    iterations: int = says("timed iterations of each variant.")
    runs: Table = says(
        "a row for each variant: ``variant`` (B, C1, C2, CC, R of the C-Cube paper, or the algorithm), ``algorithm``,"
        " ``iteration_us``, the median, ``predicted_us``, NaN where nothing predicts, ``least_us`` and ``most_us``,"
        " ``equal``: whether the weights of all ranks are what they must be, to the bit."
    )

    def __repr__(self) -> str:
        verdict = "equal" if self.correct else "DIFFERENT"
        return f"<ChainMeasurement {self.model} on {self.fabric}: {self.runs.height} variants, weights {verdict}>"

    @property
    def correct(self) -> bool:
        """Whether all ranks and variants ended with the same, right weights."""
        return bool(self.runs["equal"].all())


def emulated_row(schedule: Schedule, times_ns: Sequence[float], correct: bool, predicted_ns: float) -> dict[str, Any]:
    """A row of ``Emulated.runs``."""
    return {
        "algorithm": schedule.algorithm,
        "bytes": schedule.bytes,
        "correct": correct,
        "measured_ns": median(times_ns),
        "predicted_ns": predicted_ns,
        "least_ns": min(times_ns),
        "most_ns": max(times_ns),
    }
