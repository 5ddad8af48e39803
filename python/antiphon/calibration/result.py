"""What a machine does to communication beside computation, and the endpoint that follows."""

from __future__ import annotations

import math
from typing import ClassVar

from antiphon._core import format_bytes
from antiphon.calibration.device import GEMM, Machine
from antiphon.errors import AntiphonError
from antiphon.results import Result, Table
from antiphon.results.record import APART, record, says

NOISY = 0.2
"""Where quartiles differ by more than this share of the median, a figure is called noisy."""
BUSY = 0.05
"""Where others take more than this share of the cores, that is said."""
MOST_MEMORY = 0.99
"""Share of the memory's rate that communication takes at most: computation needs some."""
PUBLISHED = (
    ("Fig. 4(a)", "AllReduce of 100 MB", "a GEMM of dimension 1000", 1.16),
    ("Fig. 4(a)", "AllReduce of 100 MB", "an embedding lookup of batch 10000, which uses 429.2 GB/s", 1.42),
    ("Fig. 4(b)", "AllReduce of 16 MB", "GEMM and lookups of DLRM, at most", 6.2),
)
"""Where the ACE paper (ISCA 2021, section III) says what communicates, beside what, and how much slower it is for that:
on eight V100 GPUs with NVSwitch."""
ENDPOINT = (("read", ""), ("reduce", GEMM))
"""The rows that the endpoint is made of."""


@record
class Calibration(Result):
    """What a machine does to communication beside computation (docs/how-to/calibrate.md).

    >>> import antiphon
    >>> calibration = antiphon.calibrate(seconds=0.05, size="256KiB", gemm=32)
    >>> calibration.endpoint.partition(":")[0], calibration.rate("read") > 0
    ('npu', True)
    """

    machine: Machine = says("what was measured on.", "endpoint machine")
    bytes: int = says("size of a buffer; there are two.")
    gemm: int = says("dimension of the square matrices of the GEMM.")
    rounds: int = says("samples of every rate.")
    window_s: float = says("seconds of a sample.")
    core_gb_per_s: float = says("what one core, or SM, reads by itself.", APART)
    others: float | None = says(
        "share of the time of all cores that other processes, and other virtual machines, took meanwhile; None if"
        " unknown and on a GPU.",
        "others notes",
    )
    measured: Table = says(
        "a row for each ``work``, what it runs ``beside`` (empty: alone) and the ``cores`` it may use: its"
        " ``rate``, the median of all rounds, in ``unit`` (``GB/s``, 1e9 bytes read or written a second, or"
        " ``GFLOP/s``), with quartiles ``rate_q1`` and ``rate_q3``; its ``slowdown``, the rate alone over the rate"
        " beside in the same round, with quartiles; ``spread``, the difference of the quartiles over the median, of"
        " rate or slowdown, whichever is more; ``noisy``, whether that is above 0.2.",
        "measured published[where,work,beside,slowdown]",
    )

    published: ClassVar[tuple[tuple[str, str, str, float], ...]] = PUBLISHED

    def __repr__(self) -> str:
        rate, beside = self.rate("reduce"), self.rate("reduce", GEMM)
        return f"<Calibration of {self.machine.name:.60}: reduces {rate:.3g} GB/s, beside a GEMM {beside:.3g} GB/s>"

    def rate(self, work: str, beside: str = "") -> float:
        """The median rate of a work on all cores, alone or beside another, in GB/s or GFLOP/s.

        Raises:
            AntiphonError: ``unknown-name`` if that was not measured.
        """
        for row in self.measured.rows():
            if (row["work"], row["beside"]) == (work, beside) and row["cores"] == self.machine.cores:
                return float(row["rate"])
        raise AntiphonError(f"{work} beside {beside or 'nothing'} was not measured", "unknown-name")

    @property
    def endpoint(self) -> str:
        """The endpoint ``npu:...`` of this machine: what communication takes is what ``reduce`` reads beside the GEMM,
        two of the three bytes that it moves, at most 99 % of what all cores read, and as many cores as read that, at
        least one, and all but one at most."""
        total, core = self.rate("read"), self.core_gb_per_s
        memory = min(self.rate("reduce", GEMM) * 2 / 3, MOST_MEMORY * total)
        cores = max(min(math.ceil(memory / core), self.machine.cores - 1), 1)
        values = {
            "total_memory_gb_per_s": _digits(total),
            "memory_gb_per_s": _digits(memory),
            "total_sms": str(self.machine.cores),
            "sms": str(cores),
            "sm_gb_per_s": _digits(core),
        }
        return "npu:" + ",".join(f"{key}={value}" for key, value in values.items())

    @property
    def notes(self) -> list[str]:
        """What speaks against the figures."""
        notes, cache = [], self.machine.cache_bytes
        if cache and self.bytes < cache:
            size = f"buffers of {format_bytes(self.bytes)} fit into the caches of {format_bytes(cache)}"
            notes.append(f"{size}: rates are not those of memory")
        if self.others is not None and self.others > BUSY:
            cores = "core" if self.machine.cores == 1 else f"{self.machine.cores} cores"
            notes.append(f"other work took {self.others:.0%} of the time of the {cores} meanwhile")
        if self.machine.cores == 1:
            notes.append("on one core the endpoint leaves no core to computation")
        noisy = [(row["work"], row["beside"]) for row in self.measured.rows() if row["noisy"]]
        if noisy:
            which = ", the endpoint's among them" if set(noisy) & set(ENDPOINT) else ""
            message = f"{len(noisy)} of {self.measured.height} figures are noisy{which}"
            notes.append(f"{message}; give more seconds on a quieter machine")
        return notes


def _digits(value: float) -> str:
    """Four significant digits, without exponent."""
    return f"{float(f'{value:.4g}'):.12f}".rstrip("0").rstrip(".")
