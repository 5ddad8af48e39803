"""Rows for NCCL's example tuner plugin, where another choice than NCCL's own is faster by what was measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

from antiphon.errors import AntiphonError
from antiphon.library import nccl
from antiphon.library.cluster import Cluster
from antiphon.library.measured import corrected_us
from antiphon.results.record import Record, record, says

ALGORITHMS = ("ring", "tree", "nvls", "nvls_tree", "pat", "collnet_direct", "collnet_chain")
"""As the plugin's file names them."""
FIELDS = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


@record
class Row(Record):
    """What to use for a range of sizes, and what NCCL would."""

    min_bytes: int = says("the smallest size.")
    max_bytes: int = says("the largest size.")
    algorithm: str = says("the best by NCCL's model with measured rates.")
    protocol: str = says("the best protocol by it.")
    own_algorithm: str = says("what NCCL chooses for the smallest size.")
    own_protocol: str = says("the protocol that NCCL chooses then.")
    gain: float = says("share of NCCL's time that is saved at the smallest size.")

    @property
    def changes(self) -> bool:
        """Whether NCCL would do something else."""
        return (self.algorithm, self.protocol) != (self.own_algorithm, self.own_protocol)


def tuner_rows(
    cluster: Cluster, collective: str, sizes: Sequence[int], algorithms: Sequence[str] | None = None
) -> list[Row]:
    """The best algorithm and protocol of NCCL for sizes in ascending order; one row for equal ones side by side.

    >>> [(row.min_bytes, row.algorithm) for row in tuner_rows(Cluster.parse("dgx-h100"), "all-reduce", [1, 1 << 30])]
    [(1, 'ring'), (1073741824, 'nvls')]

    Raises:
        AntiphonError: ``not-applicable`` for algorithms that NCCL does not know, or does not have here.
    """
    for name in algorithms or ():
        if name not in ALGORITHMS:
            raise AntiphonError(f"NCCL does not know {name[:40]}; it knows {', '.join(ALGORITHMS)}", "not-applicable")
    rows: list[Row] = []
    for place, size in enumerate(sizes):
        found = nccl.choices(cluster, collective, size)
        able = [each for each in found if algorithms is None or each.algorithm in algorithms]
        if not able:
            asked = ", ".join(algorithms or ())
            raise AntiphonError(f"NCCL does no {collective} by {asked} on {cluster.name}", "not-applicable")
        best, own = min(able, key=lambda each: corrected_us(cluster, collective, size, each)), found[0]
        best_us, own_us = (corrected_us(cluster, collective, size, each) for each in (best, own))
        last = sizes[place + 1] - 1 if place + 1 < len(sizes) else size
        row = Row(size, last, best.algorithm, best.protocol, own.algorithm, own.protocol, 1 - best_us / own_us)
        if rows and replace(row, min_bytes=0, max_bytes=0, gain=0) == replace(
            rows[-1], min_bytes=0, max_bytes=0, gain=0
        ):
            row = replace(rows.pop(), max_bytes=last)
        rows.append(row)
    return rows


def tuner_csv(cluster: Cluster, collective: str, rows: Sequence[Row]) -> str:
    """The file that NCCL_TUNER_CONFIG_FILE names (github.com/NVIDIA/nccl, ext-tuner/example): channels, pipelined
    operations and registered buffers are left to NCCL (-1)."""
    text = io.StringIO()
    model = "Antiphon's model of NCCL (docs/explanation/library.md)"
    text.write(f"# {cluster.name}, {collective}: by {model}\n# {FIELDS}\n")
    for row in rows:
        kind, protocol = collective.replace("-", ""), row.protocol.lower()
        sizes = row.min_bytes, row.max_bytes
        cells = [kind, *sizes, row.algorithm, protocol, -1, cluster.boxes, cluster.ranks, -1, -1]
        csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
