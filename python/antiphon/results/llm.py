"""What a training step of a large model takes."""

from __future__ import annotations

from typing import Any

from antiphon.results.base import Result
from antiphon.results.record import APART, record, says
from antiphon.results.table import Table


@record
class StepRun(Result):
    """One training step of a large model on a fabric.

    >>> import antiphon
    >>> run = antiphon.step("llama3-8b", "dgx-h100:1", "tp=8", batch=8)
    >>> run.micro_batches, run.plan
    (8, 'tp=8')

    ``compute_s``, ``bubble_s`` and what ``exposed_s`` has are means of stages, and add up to ``iteration_s``.
    """

    model: str = says("name of the model, or its file.")
    fabric: str = says("the fabric's specification or name.")
    constants: str = says("name of the constants of its accelerators.")
    endpoint: str = says("what stands between memory and links.")
    priorities: bool = says("exchanges that computation waits for go before those of gradients and parameters.")
    plan: str = says("how the model is divided, without what is as usual; it has been checked.")
    ranks: int = says("accelerators.")
    batch: int = says("sequences of a step, of all ranks together.")
    sequence: int = says("tokens of a sequence.")
    micro_batches: int = says("micro batches of a step that go through each pipeline.")
    iteration_s: float = says("time of the step in seconds.")
    compute_s: float = says("of it, stages compute.")
    bubble_s: float = says("of it, stages wait for other stages of the pipeline.")
    exposed_s: dict[str, float] = says(
        "of it, stages wait for exchanges, by the kind of group that exchanges: ``tp``, ``etp``, ``cp``, ``ep``,"
        " ``pp``, ``dp``, ``edp``, ``embedding``."
    )
    memory_gib: float = says("what a rank of the fullest stage holds at most, in 2^30 bytes.")
    capacity_gib: float | None = says("memory of an accelerator in 2^30 bytes; None if it was not checked.")
    tokens_per_s: float = says("tokens of all ranks a second.")
    tflops_per_gpu: float = says("operations of the model for each accelerator, in 10^12 a second; see ``mfu``.")
    mfu: float = says(
        "model FLOPs utilization: operations of the model's forward and backward pass, those of attention halved since"
        " no token attends to later ones, as a share of the peak at the plan's precision; what is computed again is not"
        " counted."
    )
    energy_mj: float = says(
        "energy of the step in 1e6 joules: the constants' power of an accelerator, times ranks and time."
    )
    parameters: int = says("parameters of the model.")
    active_parameters: int = says("parameters that a token meets: of routed experts only those that it goes to.")
    logits_flops: float = says("operations that turn the last layer's outputs for one sequence into logits.")
    layers_at_once: int = says("equal layers of a stage that were simulated as one.")
    operations: int = says("operations that were simulated.")
    stages: Table = says(
        "where the time of every ``stage`` goes, in seconds: ``compute_s``, ``bubble_s``, and for each kind of group"
        " that a stage waits for one of ``tp_s``, ``etp_s``, ``cp_s``, ``ep_s``, ``pp_s``, ``dp_s``, ``edp_s`` and"
        " ``embedding_s``."
    )
    memory: Table = says(
        "what a rank of every ``stage`` holds when that is most, in bytes, by what it is for: ``parameters_bytes``,"
        " ``gradients_bytes``, ``optimizer_bytes``, ``embeddings_bytes`` (states of embedding and output),"
        " ``activations_bytes``, ``embedding_dropout_bytes``, ``logits_bytes``, ``buffers_bytes``, ``total_bytes``."
    )
    links: Table = says(
        "links that are alike, the busiest first: ``link`` is one of ``links`` such, which is busy for ``busy_s``"
        " seconds of the step, of them ``tp_s``, ``etp_s``, ... for each kind of group; ``exposed_s`` is the time"
        " that stages wait, on average, for exchanges that these links limit."
    )
    exchanges: Table = says(
        "exchanges of groups that are as large: ``kind`` of group as in ``exposed_s``, ``collective`` or ``message``,"
        " ``ranks`` of a group and ``boxes`` that they are in, bytes of the smallest and the largest full buffer,"
        " ``least_bytes`` and ``most_bytes``, and what their times are from, ``timed_by``: ``rings`` on links,"
        " ``routes``, ``constants`` (measured in a box), or the name of the library or algorithm that was asked for."
    )
    layers: Table = says(
        "equal layers, from ``first_layer`` to ``last_layer``, numbered from 0: ``parameters`` of one, of them"
        " ``attention``, ``dense``, ``routed``, ``router`` and ``norms``; ``forward_flops`` of one on one sequence, of"
        " them ``projection_flops``, ``core_flops`` (halved as in ``mfu``), ``dense_flops`` and ``routed_flops``; a"
        " multiply-add is two."
    )
    spans: Table = says(
        "what a ``stage`` did from ``start_s`` to ``end_s``: ``work`` is ``forward``, ``backward``, ``weights``,"
        " ``optimizer``, or the kind of group that exchanges gradients and parameters; ``micro_batch`` and ``part`` of"
        " the model, -1 for none.",
        APART,
    )

    headline = (
        "StepRun {0.model} on {0.fabric}: {0.iteration_s:,.4g} s, {0.tokens_per_s:,.0f} tokens/s, MFU {0.mfu:.1%},"
        " {0.memory_gib:.1f} GiB"
    )


@record
class BestPlans(Result):
    """The plans with which a training step of a large model is fastest.

    >>> import antiphon
    >>> found = antiphon.plan("llama3-8b", "dgx-h100:1", "zero=1", batch=16)
    >>> found.plans.height, found.legal >= found.fit >= found.simulated
    (10, True)
    """

    model: str = says("name of the model, or its file.")
    fabric: str = says("the fabric's specification or name.")
    constants: str = says("name of the constants of its accelerators.")
    endpoint: str = says("what stands between memory and links.")
    priorities: bool = says("exchanges that computation waits for go before those of gradients and parameters.")
    given: str = says("what all plans have.")
    ranks: int = says("accelerators.")
    batch: int = says("sequences of a step, of all ranks together.")
    sequence: int = says("tokens of a sequence.")
    capacity_gib: float | None = says("memory of an accelerator in 2^30 bytes; None if it was not checked.")
    legal: int = says("plans that divide model, batch and ranks without rest.")
    fit: int = says("of them, plans that fit in the memory.")
    simulated: int = says("of them, plans that were simulated: by their bounds, no other is faster than the last one.")
    refused: dict[str, int] = says(
        "how many legal plans were refused, by the part that is largest of the memory they would need,"
        " ``parameters``, ``gradients``, ``optimizer``, ``embeddings``, ``activations``, ``embedding dropout``,"
        " ``logits`` or ``buffers``, or for ``operations``, too many to simulate."
    )
    second_takes_more_s: dict[str, float] | None = says(
        "why the first plan wins: seconds that the second takes more, by what stages do on average: ``compute``,"
        " ``bubble``, or a kind of group that they wait for, ``tp``, ``etp``, ``cp``, ``ep``, ``pp``, ``dp``, ``edp``,"
        " ``embedding``; below 0 where the second takes less. None if there is no second."
    )
    plans: Table = says(
        "the best, at most ten, the fastest first: ``rank`` is its place, from 1; ``plan`` is as ``step`` takes it;"
        " ``iteration_s`` is the time of a step in seconds, ``bound_s`` what it cannot be less than; ``compute_s``,"
        " ``bubble_s`` and ``exposed_s`` (waiting for exchanges) are means of stages and add up to the step, and"
        " ``tp_s``, ``etp_s``, ``cp_s``, ``ep_s``, ``pp_s``, ``dp_s``, ``edp_s`` and ``embedding_s`` are parts of the"
        " last one; ``memory_gib``, ``tokens_per_s``, ``mfu`` and ``energy_mj`` are as of a step; ``micro_batches``"
        " go through each pipeline; ``layers_at_once`` equal layers of a stage were simulated as one, often more than"
        " by ``step``, whose time then differs a little."
    )
    changes: Table = says(
        "what other links, GPUs and memory would do to the first plan: for each ``change`` the time of a step,"
        " ``iteration_s``; with twice the memory that of the plan that would be fastest then, ``plan``, empty if it is"
        " the same."
    )

    headline = "BestPlans of {0.legal:,} for {0.model} on {0.fabric}: {0.best}"

    @property
    def best(self) -> str:
        """The fastest plan, as ``step`` takes it; empty if every rank holds all of the model."""
        return str(self.plans["plan"][0])


@record
class ConstantsFit(Result):
    """Constants of an accelerator that were fitted on measured steps.

    >>> import antiphon
    >>> antiphon.ConstantsFit(antiphon.constants("a100"), ["host_ms"], 9, antiphon.Table({}))
    <ConstantsFit of ['host_ms'] in 9 tries>
    """

    constants: dict[str, Any] = says("all constants, as a file has them.")
    free: list[str] = says("names of those that were fitted.")
    tries: int = says("how many constants were tried.")
    files: Table = says(
        "for every table of measured steps: ``file``, ``steps`` that it has, and their relative errors with these"
        " constants: ``mean_error``, ``median_error`` and ``worst_error``."
    )

    headline = "ConstantsFit of {0.free} in {0.tries} tries"
