"""How long large models take to answer."""

from __future__ import annotations

import antiphon
from antiphon.view.document import Document, Note, Table, dim, document
from antiphon.view.documents.llm import KINDS, seconds
from antiphon.view.text import digits

CONVENTIONS = (
    "Times of tokens are from below: parameters and cache are read at the full rate of memory, and no product or"
    " exchange loses time of its own. Rates and the time of the prompt have constants that were fitted on training.",
)


def inference_document(found: antiphon.Inference) -> Document:
    """Times, where they go, memory, and the smallest useful link."""
    of = "" if found.capacity_gib is None else f" of {found.capacity_gib:,.1f}"
    verdict = (
        f"{found.model} on {found.fabric}: the first token after {seconds(found.ttft_s)}, the next every"
        f" {seconds(found.token_s)}; {digits(found.request_tokens_per_s)} tokens a second for a request,"
        f" {digits(found.tokens_per_s)} for all."
    )
    divided = (
        f"{found.plan}: {found.batch:,} sequences in {found.micro_batches * found.copies:,} parts, prompts of"
        f" {found.prompt:,} tokens, a context of {found.context:,}, {found.ranks:,} ranks, constants {found.constants}"
    )
    memory = (
        f"Memory of a rank: {found.memory_gib:,.1f}{of} GiB, parameters {found.parameters_gib:,.1f}, keys and values"
        f" {found.cache_gib:,.1f}."
    )
    return document(
        Note(verdict, "bold", wrap=True),
        Note(divided, wrap=True),
        times(found),
        memory,
        links(found),
        dim(*CONVENTIONS),
    )


def times(found: antiphon.Inference) -> Table:
    """What both times consist of."""
    waits = sum(found.ttft_exposed_s.values())
    rows = [("computing, reading memory", found.ttft_s - waits, found.compute_s)]
    for kind, text in KINDS.items():
        exposed = [each[kind] for each in (found.ttft_exposed_s, found.exposed_s)]
        if any(exposed):
            rows.append((f"waiting for {text}", exposed[0], exposed[1]))
    if found.waiting_s:
        rows.append(("waiting for a turn on a stage", 0.0, found.waiting_s))
    rows.append(("together", found.ttft_s, found.token_s))
    cells = [(name, *(seconds(value) if value else "" for value in values)) for name, *values in rows]
    return Table(("", "First token:", "Next token:"), cells, "Where the time goes")


def links(found: antiphon.Inference) -> str:
    """The smallest useful link, in a sentence."""
    if found.smallest_link_gb_per_s is None:
        return "Ranks exchange nothing: any link will do."
    return (
        f"The slowest link in use has {digits(found.slowest_link_gb_per_s or 0)} GB/s. With all links scaled alike,"
        f" a token takes 10 % longer than on infinitely fast ones at {digits(found.smallest_link_gb_per_s)} GB/s: more"
        " is of little use, less costs."
    )
