"""One training step of a large model on a fabric."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, SupportsIndex

from antiphon._core import Fabric, ModelShape, parse_bytes, step_exchanges, time_step
from antiphon.arguments import expect
from antiphon.errors import AntiphonError
from antiphon.llm.exchanges import library_times, schedule_times
from antiphon.llm.given import read_constants, read_model
from antiphon.names import Library
from antiphon.platforms import read_endpoint
from antiphon.results.llm import StepRun

UNCHECKED = "none"
"""In place of a size: stages may take any memory."""


def step(
    model: str | os.PathLike[str] | ModelShape,
    fabric: str | Fabric,
    plan: str = "",
    *,
    batch: int,
    sequence: int | None = None,
    constants: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    memory: str | SupportsIndex | None = None,
    endpoint: str = "system",
    priorities: bool = False,
    library: Library | str | None = None,
    algorithm: str | None = None,
) -> StepRun:
    """Time one training step of a large model, divided over all ranks of a fabric.

    >>> run = step("llama3-8b", "dgx-h100:2", "tp=8", batch=16)
    >>> abs(run.compute_s + run.bubble_s + sum(run.exposed_s.values()) - run.iteration_s) < 1e-6
    True

    Args:
        model: name (``large_models()``), a ModelShape, or a JSON file, ``.json``: our own form or a ``config.json`` of
            Hugging Face.
        fabric: specification or Fabric. Boxes such as ``dgx-h100:2048`` may have up to 131,072 ranks, and with
            ``gpus=4`` only the first 4 GPUs of each are ranks.
        plan: how the model is divided, ``tp=8,pp=4,v=2`` (``plan_options()``).
        batch: sequences of a step, of all ranks together.
        sequence: tokens of a sequence; default: those of the model.
        constants: of the accelerators: name, file, ``.json``, or a dictionary such as ``constants("h100")``;
            default: those of the fabric's kind.
        memory: of an accelerator, such as 80GiB, or none: a plan may need any; default: that of the constants.
        endpoint: what takes something from computation while a rank exchanges: system, which takes nothing,
            npu, ace, or a file of ``calibrate`` (docs/explanation/endpoints.md).
        priorities: exchanges that computation waits for go before those of gradients and parameters.
        library: AllReduce, AllGather and ReduceScatter take the times of this library's model instead of those of
            rings on links, where it covers the group; ``exchanges`` of the result says which.
        algorithm: they take the times of this algorithm's schedules, such as ``optimal``, on the first group of each
            kind and size, proven and simulated in packets; the fabric has at most 4,096 ranks.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec``, ``bad-file`` or ``bad-size`` for wrong arguments;
            ``not-applicable`` for a plan that does not fit in the memory, naming stage and part; ``too-large``.
    """
    shape = read_model(model, sequence)
    expect("fabric", fabric, str, Fabric)
    file, text = read_constants(constants, fabric)
    given = (shape, fabric, plan, batch, text, memory_bytes(memory, text))
    expect("priorities", priorities, bool)
    platform = read_endpoint(endpoint)
    tables = []
    if library is not None or algorithm is not None:
        if library is not None and algorithm is not None:
            raise AntiphonError("library and algorithm exclude each other: give one of them", "bad-spec")
        needed = step_exchanges(shape, fabric, plan, batch, text, file)
        tables = (
            library_times(fabric, library, needed)
            if library is not None
            else schedule_times(fabric, algorithm or "", needed)
        )
    return time_step(
        *given,
        endpoint=platform,
        priorities=priorities,
        constants_file=file,
        tables=tables,
        timed_by=library or algorithm or "",
    )


def memory_bytes(memory: str | SupportsIndex | None, constants: str) -> int:
    """The memory that a rank may take, 0 for any; None: that of the constants, a text.

    >>> memory_bytes("80GiB", ""), memory_bytes("none", ""), memory_bytes(None, '{"memory_gib": 2}')
    (85899345920, 0, 2147483648)

    Raises:
        AntiphonError: ``bad-size`` for what is no size.
    """
    if memory is not None:
        return 0 if memory == UNCHECKED else parse_bytes(memory)
    try:
        gib = json.loads(constants)["memory_gib"]
        return int(gib * 2**30) if 0 < gib <= 1e9 else 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0  # The core says what is wrong with them.
