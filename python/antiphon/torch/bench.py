"""``torchrun ... -m antiphon.torch.bench``: what collectives of a job take, in the columns of the NCCL tests."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from antiphon.cli.declared import command
from antiphon.cli.group import main
from antiphon.cli.output import tell
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError
from antiphon.execution.timed import check_options, rank_of_job, silence, speak
from antiphon.torch.measuring import check, joined, measured
from antiphon.view.documents.job import runs_document


@command(name="antiphon.torch.bench")
def bench(
    *,
    collective: str = "all-reduce",
    bytes: str = "8KiB..64MiB",
    backend: str = "antiphon",
    element: str = "float32",
    iterations: int = 5,
    warmup: int = 5,
    output: str,
) -> None:
    """Time collectives between the ranks of a job, and check every element of their results.

    Examples:
        torchrun --nproc-per-node 2 -m antiphon.torch.bench --bytes 8KiB..1MiB
        torchrun ... -m antiphon.torch.bench --collective all-to-all --backend gloo --json

    Args:
        collective: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or reduce; several with commas.
        bytes: Full buffer sizes, such as 8KiB..64MiB (in powers of two) or 1MiB,16MiB.
        backend: antiphon, or another that PyTorch has for CPU tensors, such as gloo.
        element: Type of the numbers: float32, float64, float16, bfloat16, int8, uint8, int32 or int64.
        iterations: Timed runs; what counts is the median.
        warmup: Runs before them, which are only checked.
    """
    collectives = collective.split(",")
    check_options(collectives, element, iterations, warmup)
    sizes = size_range(bytes)
    example = "torchrun --nproc-per-node 2 -m antiphon.torch.bench"
    rank, ranks = rank_of_job(f"no job: start it on every host with torchrun, such as {example}")
    check(collectives, sizes, backend, element, ranks)
    speak()
    given: Any = {"backend": backend, "element": element, "iterations": iterations, "warmup": warmup}
    try:
        rows = measured(*joined(), collectives, sizes, **given)
    except AntiphonError as error:
        raise AntiphonError(f"rank {rank}: {error.message}", error.code) from error
    if rank == 0:
        head = {"ranks": ranks, **given}
        tell("bench", head | {"runs": rows}, output, partial(runs_document, head, rows), rows="runs")
    if any(row["wrong"] for row in rows):
        raise AntiphonError("a result is not what the collective defines", "not-proven")


if __name__ == "__main__":
    silence()
    main(["antiphon.torch.bench", *sys.argv[1:]], prog_name="torchrun ... -m")
