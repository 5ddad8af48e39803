"""``antiphon discover``: how the hosts of a job are cabled, what is odd about it, and what collectives reach on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.torch.discovery import Examined, Settings, examine
from antiphon.torch.discovery.findings import Finding
from antiphon.torch.discovery.odd import odd
from antiphon.torch.measuring import TIMEOUT_S, joined, leave, measured

WARMUP = 9
"""By then the better plan, which is made in the background, is in use, or will not be for a long time."""


def discover(
    collectives: Sequence[str],
    sizes: Sequence[int],
    iterations: int,
    progress: Callable[[str, float], None],
) -> tuple[int, dict[str, Any]]:
    """Examines the wiring of the job that this process is a rank of; all ranks call it.

    Args:
        collectives: that are measured, on float32.
        sizes: of full buffers, in bytes; shards are made whole.
        iterations: timed runs of each.
        progress: is told what is done, as a share of all.

    Returns:
        The own rank, and what ``antiphon discover --json`` prints.

    Raises:
        AntiphonError: as `antiphon.torch.discovery.connect`; ``missing-extra`` without PyTorch.
    """
    import torch.distributed as dist

    store, rank, ranks = joined()
    progress("examining the cables", 0)
    examined = examine(
        dist.PrefixStore("antiphon-discover", store),
        rank,
        ranks,
        timeout_s=TIMEOUT_S,
        settings=Settings.from_environment(),
    )
    whole = 4 * ranks
    kept = sorted({max(whole, size - size % whole) for size in sizes})
    runs, unmeasured = [], None
    if len(examined.parts) == 1 and ranks > 1:
        given: Any = {"iterations": iterations, "warmup": WARMUP, "progress": progress}
        try:
            runs = measured(store, rank, ranks, collectives, kept, **given)
        except AntiphonError as error:
            unmeasured = error.message
    else:
        leave(store, rank, ranks)
    return rank, document(examined, iterations) | {"runs": runs, "unmeasured": unmeasured}


def document(examined: Examined, iterations: int) -> dict[str, Any]:
    """As JSON has it, without runs."""
    return {
        "hosts": [
            {
                "name": host.name,
                "ranks": list(host.ranks),
                "ports": [
                    {
                        "name": port.name,
                        "addresses": list(port.addresses),
                        "speed_mbit": port.speed_mbit,
                        "mtu_bytes": port.mtu_bytes,
                        "carrier": port not in host.unplugged,
                    }
                    for port in host.interfaces + host.unplugged
                ],
            }
            for host in examined.hosts
        ],
        "links": [link for each in examined.findings if each.is_cable for link in _links(each)],
        "odd": [{"link": each.link, "what": each.what} for each in odd(examined)],
        "iterations": iterations,
    }


def _links(found: Finding) -> list[dict[str, Any]]:
    """There and back."""
    ports = [end.port for end in found.cable.ends]
    return [
        {
            "from": start[0],
            "to": end[0],
            "from_port": start[1],
            "to_port": end[1],
            "rate_gb_per_s": float(f"{found.rates[way] / 1e9:.4g}"),
            "latency_us": float(f"{found.measured.round_trip_s / 2 * 1e6:.4g}"),
            "lost": round(found.lost[way], 4),
            "cable": found.cable.name,
        }
        for way, (start, end) in enumerate([ports, ports[::-1]])
    ]
