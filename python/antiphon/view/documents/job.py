"""Jobs of PyTorch: what their collectives take, and how their hosts are cabled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from antiphon._core import format_bytes
from antiphon.view.document import Document, Heading, Note, Verbatim, dim, document, table_of
from antiphon.view.text import format_bit_rate, format_time


def runs_document(head: dict[str, Any], rows: list[dict[str, Any]]) -> Document:
    """A row for each collective and size."""
    table = table_of(
        rows,
        "Collective {collective} | Size: {size} | Count: {count} | Time: {time_ns} | algbw: {algbw_gb_per_s}"
        " | busbw: {bus_bandwidth_gb_per_s} | Wrong: {wrong} | Bound: {bound} | Of bound: {share} | Algorithm {name}",
        f"{head['backend']}, {head['ranks']} ranks, {head['element']}",
        lambda row: "bold red" if row["wrong"] else "",
        () if any(row["bound_us"] for row in rows) else ("Bound:", "Of bound:", "Algorithm"),
        size=lambda row: format_bytes(row["bytes"]),
        count=lambda row: f"{row['elements']:,}",
        time_ns=lambda row: row["time_us"] * 1e3,
        algbw_gb_per_s=lambda row: row["bytes"] / row["time_us"] / 1e3,
        bound=lambda row: format_time(row["bound_us"] * 1e3) if row["bound_us"] else "",
        share=lambda row: f"{row['bound_us'] / row['time_us']:.0%}" if row["bound_us"] else "",
        name=lambda row: row["algorithm"] or "",
    )
    line = f"Median of {_count(head['iterations'], 'run')}, from the first rank's call to the last rank's return"
    return document(table, dim(f"{line}; every element was compared with the definition"))


def wiring_document(found: dict[str, Any]) -> Document:
    """A drawing, the cables, what is odd, and what collectives take; as ``antiphon discover --json`` has it."""
    cables = [
        {
            **there,
            "back_gb_per_s": back["rate_gb_per_s"],
            "is_odd": any(there["cable"] == each["link"] for each in found["odd"]),
        }
        for there, back in zip(found["links"][::2], found["links"][1::2], strict=True)
    ]
    table = table_of(
        cables,
        "Cable {from} {from_port} - {to} {to_port} "
        "| Left to right: {there} | Right to left: {back} | Latency: {latency_ns} | {odd}",
        f"{_count(len(found['hosts']), 'host')}, {_count(len(cables), 'cable')}",
        lambda cable: "bold red" if cable["is_odd"] else "",
        there=lambda cable: format_bit_rate(cable["rate_gb_per_s"] * 8e9),
        back=lambda cable: format_bit_rate(cable["back_gb_per_s"] * 8e9),
        latency_ns=lambda cable: cable["latency_us"] * 1e3,
        odd=lambda cable: "odd" if cable["is_odd"] else "",
    )
    drawing = "\n".join(trails([(cable["from"], cable["to"]) for cable in cables]))
    odd = [Note(f"{each['link']}: {each['what']}", bold=len(each["link"]), wrap=True) for each in found["odd"]]
    head = {"backend": "antiphon", "ranks": sum(len(host["ranks"]) for host in found["hosts"]), "element": "float32"}
    runs = runs_document(head | {"iterations": found["iterations"]}, found["runs"]).parts if found["runs"] else ()
    return document(
        drawing and Verbatim(drawing),
        table if cables else None,
        Heading("Odd") if odd else "Nothing is odd." if cables else "No cable was found.",
        odd,
        found["unmeasured"] and Note(f"Collectives were not measured: {found['unmeasured']}", wrap=True),
        runs,
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def trails(cables: Sequence[tuple[str, str]]) -> list[str]:
    """Cables as lines of hosts, each cable once; ``=`` are several between the same hosts.

    >>> trails([("a", "b"), ("b", "c"), ("c", "a")])
    ['a --- b --- c --- a']
    >>> trails([("a", "b"), ("a", "b"), ("a", "c"), ("a", "d")])
    ['b =2= a --- c', 'a --- d']
    """
    count = Counter(tuple(sorted(pair)) for pair in cables)
    left: dict[str, list[str]] = {}
    for low, high in count:
        left.setdefault(low, []).append(high)
        left.setdefault(high, []).append(low)
    found = []
    while any(left.values()):
        # Ends of lines first: hosts with an odd number of neighbours, of those the one with fewest.
        at = min((host for host in left if left[host]), key=lambda host: (len(left[host]) % 2 == 0, len(left[host])))
        line = at
        while left[at]:
            to = left[at].pop(0)
            left[to].remove(at)
            several = count[(min(at, to), max(at, to))]
            line += f" {'---' if several == 1 else f'={several}='} {to}"
            at = to
        found.append(line)
    return found
