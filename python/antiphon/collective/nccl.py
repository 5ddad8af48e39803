"""What was tuned as a table of NCCL's tuner plugin, for the algorithms that both have."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    from antiphon.collective.choices import Choice, Tuning

COLUMNS = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
"""Of the table, as in NCCL's example of a tuner plugin."""
COLLECTIVE = "all-reduce"
"""The only collective for which two of NCCL's algorithms are known here."""
KNOWN = {"ring": "ring", "dbtree": "tree"}
"""NCCL's names of algorithms."""
ANY = -1


def check_comparable(collective: str) -> None:
    """Refuses what has no two algorithms that NCCL has too.

    Raises:
        AntiphonError: ``not-applicable``.
    """
    if collective != COLLECTIVE:
        both = " and ".join(f"{ours} ({theirs})" for ours, theirs in KNOWN.items())
        message = f"a table for NCCL says which of {both} is better, which are for {COLLECTIVE}, not for {collective}"
        raise AntiphonError(message, "not-applicable")


def tuner_table(tuning: Tuning, ranks: int | None = None) -> str:
    """The rows of ``Tuning.to_nccl``.

    Raises:
        AntiphonError: as there.
    """
    check_comparable(tuning.collective)
    lines = [COLUMNS]
    for best, run in groupby(tuning.choices, _best):
        if best is not None:
            sizes = [choice.bytes for choice in run]
            number = ANY if ranks is None else ranks
            fields = ("allreduce", min(sizes), max(sizes), KNOWN[best], "simple", ANY, ANY, number, ANY, ANY)
            lines.append(",".join(map(str, fields)))
    if len(lines) == 1:
        needed = " and ".join(KNOWN)
        message = f"no row for NCCL: at no size all of {needed} were timed on {tuning.fabric} with all ranks"
        raise AntiphonError(message, "not-applicable")
    return "\n".join(lines) + "\n"


def _best(choice: Choice) -> str | None:
    """The best of the algorithms that NCCL has; None unless each was timed, with all ranks."""
    names = [each.algorithm.partition(":")[0] for each in choice.ranking if not each.excluded_ranks]
    known = list(dict.fromkeys(name for name in names if name in KNOWN))
    return known[0] if len(known) == len(KNOWN) else None
