"""What no schedule can beat on a cluster of equal boxes, in closed form by symmetry: no graph, any number of GPUs.

Each term is a cut: what must cross it, over its rate. A test holds them equal to the exact bound on small fabrics.
"""

from __future__ import annotations

from antiphon.library.cluster import UNIT_BOXES, Cluster


def cuts_us(cluster: Cluster, collective: str, bytes: int, raw: bool = True) -> dict[str, float]:
    """Time by what crosses each kind of link, in us: ``gpu`` in a box, ``NIC``, and ``rail`` above the leaves.

    Args:
        cluster: equal boxes.
        collective: one of those of nccl-tests.
        bytes: as nccl-tests counts: the whole buffer, of an AllGather that of its result.
        raw: at the rates that links have, of which nothing measured reaches more; else at usable ones.
    """
    n, k = cluster.ranks, cluster.boxes
    gpu = cluster.gpu_raw_gb_per_s if raw else cluster.gpu_gb_per_s
    nic = cluster.nic_raw_gb_per_s if raw else cluster.nic_gb_per_s
    box = cluster.nics_per_box * nic
    reduced = collective == "all-reduce" and (cluster.nvls or cluster.sharp)
    volume = _sent(collective, n)
    if reduced:
        # In one box a GPU sends all that it has, and the sums that it fetched; between boxes others may fetch them.
        volume = min(volume, (n + 1) / n if k == 1 else 1.0)
    per_us = bytes / 1e3
    if k == 1:
        return {"gpu": volume * per_us / gpu}
    crossing = 1.0 if collective == "all-reduce" and cluster.sharp else _sent(collective, k)
    many = cluster.ranks_per_box if collective == "all-to-all" else 1
    found = {"gpu": volume * per_us / (gpu + nic), "NIC": crossing * many * per_us / box}
    if cluster.oversubscription > 1:
        pods = -(-k // UNIT_BOXES)
        up = UNIT_BOXES * box / cluster.oversubscription
        most = many * (UNIT_BOXES if collective == "all-to-all" else 1)
        found["rail"] = (1.0 if crossing == 1.0 else _sent(collective, pods)) * most * per_us / up
    return found


def _sent(collective: str, parts: int) -> float:
    """Buffers that one of equal parts sends at least, where nothing on the way adds."""
    if collective in ("broadcast", "reduce"):
        return 1.0
    return (2 if collective == "all-reduce" else 1) * (parts - 1) / parts
