"""What limits a collective at every size."""

from __future__ import annotations

import antiphon
from antiphon.collective.limited import Limits, SizeLimits
from antiphon.view.document import Document, document, table_of
from antiphon.view.text import format_time, platform, without_ranks

THINGS = ("rates", "latency", "endpoint", "computation")
"""What may limit, in the order of columns and colours."""
TENTH = 0.1
"""Of the time: what saves less is no limit alone."""


def limits_document(found: Limits) -> Document:
    """The limit at each size, what each thing would save, and where the limit changes."""

    def saved(name: str, size: SizeLimits) -> str:
        return f"{round(size.saved(name), 3) + 0.0:.1%}"

    columns = " | ".join(f"{name.capitalize()}: {{{name}}}" for name in THINGS)
    table = table_of(
        found.sizes,
        "Size {bytes} | Best {algorithm}{left_out} | Time: {time_ns} | Of bound: {efficiency:.1%}"
        " | Bound by {lower_bound_by} | Limit {limit.name} | " + columns,
        f"{found.collective} on {found.fabric} (system {platform(found.system, found.fidelity)})",
        left_out=lambda size: without_ranks(size.excluded_ranks, " ({})"),
        rates=lambda size: saved("rates", size),
        latency=lambda size: saved("latency", size),
        endpoint=lambda size: saved("endpoint", size),
        computation=lambda size: saved("computation", size),
    )
    tied = ", ".join(antiphon.format_bytes(size.bytes) for size in found if size.limit.saved < TENTH)
    late = ", ".join(map(antiphon.format_bytes, found.left_out))
    return document(
        table,
        "The last four columns: time that is saved where rates are doubled, latencies halved, endpoints twice as good,"
        " additions twice as fast. The limit is what saves most.",
        [
            f"From {antiphon.format_bytes(size)} on: {after} limits, no longer {before}"
            for size, before, after in found.changes
        ],
        tied and f"At {tied} no thing alone saves a tenth: several take about as long, side by side.",
        late and f"Left out when the time limit was over: {late}",
    )


def limits_verdict(found: Limits) -> str:
    """What limits from which size on, in a sentence."""
    first = found.sizes[0]
    parts = [f"{first.limit.name} at {antiphon.format_bytes(first.bytes)}"]
    parts += [f"{after} from {antiphon.format_bytes(size)} on" for size, _, after in found.changes]
    last = found.sizes[-1]
    least = f"{format_time(last.bound.time_ns)} by {last.lower_bound_by}"
    return (
        f"The limit is {', '.join(parts)}. At {antiphon.format_bytes(last.bytes)} no schedule takes less than {least}."
    )
