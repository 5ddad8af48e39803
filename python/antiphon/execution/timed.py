"""What commands that time the collectives of a job are asked, and the job that they are part of."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from antiphon.errors import AntiphonError

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce")
ELEMENTS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
MOST_RUNS = 100_000


def check_options(collectives: Sequence[str], element: str, iterations: int, warmup: int) -> None:
    """Refuses options that mean nothing.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-size``.
    """
    named = [("collective", each, COLLECTIVES) for each in collectives] + [("element", element, ELEMENTS)]
    for name, value, known in named:
        if value not in known:
            raise AntiphonError(f"{name} is '{value:.40}'; known: {', '.join(known)}", "unknown-name")
    for name, count, least in (("iterations", iterations, 1), ("warmup", warmup, 0)):
        if not least <= count <= MOST_RUNS:
            raise AntiphonError(f"{name} is {count}; give {least} to {MOST_RUNS:,}", "bad-size")


def rank_of_job(how: str) -> tuple[int, int]:
    """The rank of this process and how many there are, as torchrun says.

    Args:
        how: to start the command as a job.

    Raises:
        AntiphonError: ``bad-spec`` outside of a job, and for variables that mean nothing.
    """
    texts = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    if not texts["RANK"]:
        raise AntiphonError(how, "bad-spec")
    for name, text in texts.items():
        if not text or (name != "MASTER_ADDR" and not text.isdecimal()):
            raise AntiphonError(f"{name} is '{text:.40}'; start every rank with torchrun, which sets it", "bad-spec")
    return int(texts["RANK"]), int(texts["WORLD_SIZE"])


def silence() -> None:
    """What is wrong with options, the first rank of a host says for all of them."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        sys.stderr = io.StringIO()


def speak() -> None:
    """What goes wrong from here on may do so at any rank."""
    sys.stderr = sys.__stderr__
