"""What was proven of a file of another tool."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.results.record import Record, says


@dataclass(frozen=True)
class FileProof(Record):
    """That a program of another tool's format computes its collective, as it stands.

    >>> import antiphon
    >>> text = antiphon.export(antiphon.build("ring:4", "ring", bytes="1MiB"))
    >>> proof = antiphon.prove_file(text=text)
    >>> proof.collective, proof.ranks, proof.messages, proof.fifo_depth
    ('all-reduce', 4, 24, 1)

    Attributes:
        format: name of the format.
        name: what the file calls itself.
        collective: what it computes.
        root: rank that a Broadcast starts from, or a Reduce ends at; None for other collectives.
        ranks: number of ranks.
        thread_blocks: of all ranks together; 0 where a format has none.
        steps: of all thread blocks.
        messages: between ranks.
        fifo_depth: messages that a connection must hold so that nothing can deadlock; 0 where there are no connections.
        places: how input and output may lie: ``in-place``, ``out-of-place``.
        consumers: name of everything that reads the format, and what keeps it from this file, if anything.
    """

    format: str
    name: str
    collective: str
    root: int | None
    ranks: int
    thread_blocks: int
    steps: int
    messages: int
    fifo_depth: int
    places: list[str]
    consumers: list[tuple[str, str | None]] = field(metadata=says("consumers[name,refuses]"))
