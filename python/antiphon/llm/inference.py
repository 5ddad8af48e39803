"""How long a large model takes to answer, on a fabric."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, SupportsIndex

from antiphon._core import Fabric, ModelShape
from antiphon._core import infer as core_infer
from antiphon.arguments import expect
from antiphon.llm.given import read_constants, read_model
from antiphon.llm.step import memory_bytes
from antiphon.results.inference import Inference


def infer(
    model: str | os.PathLike[str] | ModelShape,
    fabric: str | Fabric,
    plan: str = "",
    *,
    batch: int = 1,
    prompt: int = 4096,
    context: int | None = None,
    constants: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    memory: str | SupportsIndex | None = None,
    host_us: float = 0.0,
) -> Inference:
    """Time a prompt and the next tokens of a large model, divided over all ranks of a fabric.

    A switchless ring of four machines, each with a quarter of every layer, against four stages:

    >>> tensor = infer("llama3-70b", "dgx-spark:ring4@12.5/2us", "tp=4", constants="gb10")
    >>> stages = infer("llama3-70b", "dgx-spark:ring4@12.5/2us", "pp=4", constants="gb10")
    >>> tensor.token_s < stages.token_s / 2, tensor.smallest_link_gb_per_s < 1
    (True, True)

    Decode reads parameters once and the cache of every sequence for a token of each. Its times are from below: of what
    was fitted on training it has rates alone, and no time that each product or exchange loses.

    Args:
        model: name (``large_models()``), a ModelShape, or a JSON file, ``.json``: our own form or a ``config.json`` of
            Hugging Face.
        fabric: specification or Fabric, as in ``step``.
        plan: how the model is divided, ``tp=8,ep=8``, of ``plan_options()`` those that are not for training: tp, pp,
            ep, etp, dp, ep-overlap, precision, order. Experts that ep divides are whole unless etp divides them, too.
        batch: sequences at once, of all copies of the model together.
        prompt: tokens of a prompt, of which each copy of the model takes one at a time.
        context: tokens that the next one attends to; default: those of the prompt.
        constants: of the accelerators: name, file, ``.json``, or a dictionary such as ``constants("h100")``;
            default: those of the fabric's kind.
        memory: of an accelerator, such as 80GiB, or none: a plan may need any; default: that of the constants.
        host_us: least time of a layer in microseconds, in which the host starts its kernels; 0 if it starts all of them
            at once, as CUDA graphs do.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec``, ``bad-file`` or ``bad-size`` for wrong arguments;
            ``not-applicable`` for what does not fit in the memory, naming stage and part; ``too-large``.
    """
    shape = read_model(model)
    expect("fabric", fabric, str, Fabric)
    expect("host_us", host_us, int, float)
    file, text = read_constants(constants, fabric)
    length = prompt if context is None else context
    return core_infer(
        shape, fabric, plan, batch, prompt, length, text, memory_bytes(memory, text), host_us, constants_file=file
    )
