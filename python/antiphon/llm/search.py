"""The plans with which a large model trains fastest on a fabric."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex

from antiphon._core import Fabric, ModelShape, best_plans
from antiphon.arguments import expect
from antiphon.llm.given import read_constants, read_model
from antiphon.llm.step import memory_bytes
from antiphon.platforms import read_endpoint
from antiphon.results.llm import BestPlans


def plan(
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
    progress: Callable[[float], object] | None = None,
) -> BestPlans:
    """Find the fastest plans for a training step of a large model, and say what would make the first faster.

    All legal plans are bounded from below, and those are simulated whose bounds leave them a place among the first ten.

    >>> from antiphon import step
    >>> found = plan("llama3-8b", "dgx-h100:2", "tp=2,zero=1", batch=32)
    >>> run = step("llama3-8b", "dgx-h100:2", found.best, batch=32)
    >>> run.iteration_s == found.plans["iteration_s"].tolist()[0]
    True

    Args:
        model: name (``large_models()``), a ModelShape, or a JSON file, ``.json``: our own form or a ``config.json`` of
            Hugging Face.
        fabric: specification or Fabric, as in ``step``.
        plan: what all plans have, ``precision=fp8,tp=8`` (``plan_options()``). Those of tp, cp, pp, ep, etp, v, mb,
            schedule, zero and recompute that are left out are searched; all else is as usual.
        batch: sequences of a step, of all ranks together.
        sequence: tokens of a sequence; default: those of the model.
        constants: of the accelerators: name, file, ``.json``, or a dictionary such as ``constants("h100")``;
            default: those of the fabric's kind.
        memory: of an accelerator, such as 80GiB, or none: a plan may need any; default: that of the constants.
        endpoint: what takes something from computation while a rank exchanges: system, which takes nothing,
            npu, ace, or a file of ``calibrate`` (docs/explanation/endpoints.md).
        priorities: exchanges that computation waits for go before those of gradients and parameters.
        progress: called about ten times a second with the share done, 0 to 1; an exception it raises ends the search.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec``, ``bad-file`` or ``bad-size`` for wrong arguments;
            ``not-applicable`` if no plan is legal, or none fits in the memory: it says how many, and what would help;
            ``too-large``.
    """
    shape = read_model(model, sequence)
    expect("fabric", fabric, str, Fabric)
    file, text = read_constants(constants, fabric)
    given = (shape, fabric, plan, batch, text, memory_bytes(memory, text))
    expect("priorities", priorities, bool)
    return best_plans(
        *given, endpoint=read_endpoint(endpoint), priorities=priorities, constants_file=file, progress=progress
    )
