"""What was proven of a file of another tool."""

from __future__ import annotations

from antiphon.results.record import Record, record, says


@record
class FileProof(Record):
    """That a program of another tool's format computes its collective, as it stands.

    >>> import antiphon
    >>> text = antiphon.export(antiphon.build("ring:4", "ring", bytes="1MiB"))
    >>> proof = antiphon.prove_file(text=text)
    >>> proof.collective, proof.ranks, proof.messages, proof.fifo_depth
    ('all-reduce', 4, 24, 1)
    """

    format: str = says("name of the format.")
    name: str = says("what the file calls itself.")
    collective: str = says("what it computes.")
    root: int | None = says("rank that a Broadcast starts from, or a Reduce ends at; None for other collectives.")
    ranks: int = says("number of ranks.")
    thread_blocks: int = says("thread blocks of all ranks together; 0 where a format has none.")
    steps: int = says("steps of all thread blocks.")
    messages: int = says("messages between ranks.")
    fifo_depth: int = says(
        "messages that a connection must hold so that nothing can deadlock; 0 where there are no connections."
    )
    places: list[str] = says("how input and output may lie: ``in-place``, ``out-of-place``.")
    consumers: list[tuple[str, str | None]] = says(
        "name of everything that reads the format, and what keeps it from this file, if anything.",
        "consumers[name,refuses]",
    )
