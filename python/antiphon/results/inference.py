"""How long a large model takes to answer."""

from __future__ import annotations

from antiphon.results.base import Result
from antiphon.results.record import record, says


@record
class Inference(Result):
    """A prompt and the next tokens of a batch, of a large model on a fabric.

    >>> import antiphon
    >>> found = antiphon.infer("llama3-8b", "dgx-h100:1", "tp=8", batch=8)
    >>> found.tokens_per_s == 8 / found.token_s
    True

    ``compute_s``, ``waiting_s`` and what ``exposed_s`` has add up to ``token_s``. Decode's times are from below: of
    what was fitted on training it has rates alone.
    """

    model: str = says("name of the model, or its file.")
    fabric: str = says("the fabric's specification or name.")
    constants: str = says("name of the constants of its accelerators.")
    plan: str = says("how the model is divided.")
    ranks: int = says("accelerators.")
    batch: int = says("sequences at once, of all copies of the model together.")
    prompt: int = says("tokens of a prompt.")
    context: int = says("tokens that the next one attends to, whose keys and values are kept.")
    host_us: float = says("least time of a layer in microseconds.")
    copies: int = says("copies of the model, which divide the batch.")
    micro_batches: int = says("parts of the batch of a copy, which are in its stages at the same time.")
    ttft_s: float = says("time to first token in seconds: one prompt on each copy.")
    token_s: float = says("time of the next token of every sequence in seconds.")
    tokens_per_s: float = says("tokens a second of all sequences together.")
    request_tokens_per_s: float = says("tokens a second of one sequence.")
    compute_s: float = says("of ``token_s``, it is computed, or memory is read.")
    waiting_s: float = says("of ``token_s``, a sequence waits for its turn on a stage.")
    exposed_s: dict[str, float] = says(
        "of ``token_s``, it waits for exchanges, by the kind of group that exchanges: ``tp``, ``etp``, ``ep``, ``pp``;"
        " the others, ``cp``, ``dp``, ``edp``, ``embedding``, are 0."
    )
    ttft_exposed_s: dict[str, float] = says("of ``ttft_s``, the same.")
    memory_gib: float = says("what a rank of the fullest stage holds, in 2^30 bytes.")
    parameters_gib: float = says("parameters of a rank of the stage that has most of them, in 2^30 bytes.")
    cache_gib: float = says("keys and values of a rank of the stage that has most of them, in 2^30 bytes.")
    capacity_gib: float | None = says("memory of an accelerator in 2^30 bytes; None if it was not checked.")
    slowest_link_gb_per_s: float | None = says(
        "rate of the slowest link that the next token uses; None if ranks exchange nothing."
    )
    smallest_link_gb_per_s: float | None = says(
        "the smallest useful rate of that link: all links' rates are scaled alike until ``token_s`` is 10 % longer than"
        " on infinitely fast links, whose latencies stay; None if ranks exchange nothing."
    )

    row = "inference"
    headline = (
        "Inference {0.model} on {0.fabric}: {0.ttft_s:,.4g} s to the first token, {0.token_s:,.4g} s a token,"
        " {0.tokens_per_s:,.0f} tokens/s, {0.memory_gib:.1f} GiB"
    )
