"""Figures as text for people: three digits and a unit that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

from antiphon._core import System, format_bytes

if TYPE_CHECKING:
    from antiphon import Bound, Run

TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
"""Units of time, largest first, each with its length in nanoseconds."""

NO_STEPS = "–"
"""What stands for the steps of a timetable."""

PREFIXES = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12))
"""Of units of energy and power, largest first."""


def platform(system: System, *more: str) -> str:
    """What something ran on: the system, its endpoint if that is a model of its own, and more.

    >>> platform(System("tto").with_(endpoint="npu"), "packet")
    'tto, endpoint npu, packet'
    """
    endpoint = [] if system.endpoint == "system" else [f"endpoint {system.endpoint}"]
    return ", ".join([system.name, *endpoint, *more])


def without_ranks(excluded: Sequence[int], form: str = "{}") -> str:
    """Which ranks do not take part; empty if all do.

    >>> without_ranks([2, 5], " ({})"), without_ranks([])
    (' (without rank 2, 5)', '')
    """
    return form.format(f"without rank {', '.join(map(str, excluded))}") if excluded else ""


def time_unit(ns: float) -> tuple[str, float]:
    """The largest unit in which a time is at least 1, and its length in nanoseconds."""
    return next((unit for unit in TIME_UNITS if ns >= unit[1]), TIME_UNITS[-1])


def format_time(ns: float) -> str:
    """A time with a unit.

    >>> format_time(2688123.4)
    '2.69 ms'
    """
    unit, length = time_unit(ns)
    return f"{digits(ns / length)} {unit}"


def format_energy(joules: float) -> str:
    """An energy with a unit.

    >>> format_energy(0.0023456)
    '2.35 mJ'
    """
    return _with_prefix(joules, "J")


def format_power(watts: float) -> str:
    """A power with a unit.

    >>> format_power(12.345)
    '12.3 W'
    """
    return _with_prefix(watts, "W")


def _with_prefix(value: float, unit: str) -> str:
    prefix, factor = next((each for each in PREFIXES if value >= each[1]), PREFIXES[-1])
    return f"{digits(value / factor)} {prefix if value else ''}{unit}"


def bound_names(bound: Bound) -> str:
    """What a lower bound is by, and what of rates of links and latency is at least half of it; else the rates."""
    name, rates = bound.by_rates
    others = [each for each in (("latency", bound.latency_ns), (name, rates)) if each[0] != bound.binding]
    both = [f" and {other}, {format_time(time)}" for other, time in others if time >= bound.time_ns / 2]
    less = [f"; by rates {format_time(rates)}"] if bound.binds != "rates" and rates < bound.time_ns / 2 else []
    return bound.binding + "".join(both + less)


def allowed(bound: Bound) -> str:
    """What the rates of links alone allow, and what else takes, in a sentence."""
    _, rates = bound.by_rates
    if not rates:
        return f"Latency alone takes {format_time(bound.latency_ns)}."
    others = {"endpoints": bound.endpoint_ns, "additions": bound.computation_ns}
    more = "".join(f", {name} {format_time(ns)}" for name, ns in others.items() if ns)
    return (
        f"The rates of the links alone allow {format_time(rates)}; latency alone takes"
        f" {format_time(bound.latency_ns)}{more}."
    )


RESTS_ON = {
    "latency": "latency, of a packet on its way between the ranks farthest apart",
    "endpoint": "endpoints, by what a rank must read, bring over its bus or write",
    "computation": "computation, by additions that must be made at the rates of all ranks",
}
"""What a lower bound rests on that is not by rates of links."""


def limit_text(bound: Bound) -> str:
    """What a lower bound rests on."""
    if bound.binds == "rates":
        return bound.limit.text
    return f"{RESTS_ON[bound.binding]}; by rates {bound.limit.text}"


def binding_sentence(bound: Bound, of_rates: str) -> str:
    """The sentence on the links that a bound by rates rests on, behind one that says so where something else binds."""
    if bound.binds == "rates" or not of_rates:
        return of_rates
    return f"{bound.binding.capitalize()} binds at this size. By rates alone: {of_rates[0].lower()}{of_rates[1:]}"


def certified_run(run: Run) -> str:
    """How near to the optimum the schedule of a run is by rates, and what else its time is; it has a certificate."""
    share, least = run.result.proof.share_of_optimum, run.result.proof.certified_ns
    if share is None or least is None or not share:
        return ""
    busy = least / share
    text = f"{run.label} is at {certified(share)}; {digits(100 * least / run.time_ns)} % are reached"
    if busy > 0.999 * run.time_ns:
        return text
    return (
        f"{text}: its busiest link needs {format_time(busy)} of its {format_time(run.time_ns)}, the rest is what rates"
        " leave out: packets and hand-offs under way, headers and padding, links that wait while the first"
        " chunks come and the last go"
    )


def certified(share: float) -> str:
    """How near to the optimum a schedule is, as its certificate proves."""
    return f"{math.floor(share * 1e4) / 100:.2f} % of the optimum by the rates of links, proven by their prices"


def format_steps(steps: int, messages: int) -> str:
    """The steps of a schedule; a dash where its slots are times of a timetable, and most begin no message.

    >>> format_steps(1400, 4096), format_steps(5_500_001, 30_720)
    ('1,400', '–')
    """
    return f"{steps:,}" if steps <= messages else NO_STEPS


def format_bandwidth(gb_per_s: float) -> str:
    """A rate given in 1e9 bytes per second.

    >>> format_bandwidth(24.9651)
    '25.0 GB/s'
    """
    return f"{digits(gb_per_s)} GB/s"


def format_bit_rate(bit_per_s: float) -> str:
    """A rate with a unit that suits it.

    >>> format_bit_rate(200e6)
    '200 Mbit/s'
    """
    return _with_prefix(bit_per_s, "bit/s")


def digits(value: float) -> str:
    """A number with three significant digits, without exponent.

    >>> [digits(x) for x in (0.01234, 1.5, 82.64, 1234.5)]
    ['0.0123', '1.50', '82.6', '1,234']
    """
    if value == 0:
        return "0"
    places = 2
    while places > 0 and abs(value) >= 10 ** (3 - places):
        places -= 1
    while places < 9 and abs(value) < 10.0 ** (2 - places):
        places += 1
    return f"{value:,.{places}f}"


UNITS: dict[str, Callable[[Any], str]] = {
    "_ns": format_time,
    "_gb_per_s": format_bandwidth,
    "_j": format_energy,
    "_w": format_power,
    "bytes": format_bytes,
}
"""How fields are shown, by the end of their name."""


def filled(template: str, record: Any, computed: Mapping[str, Callable[[Any], Any]] | None = None) -> str:
    """A template with the fields of a record, or what is computed of it; formats are Python's, else by unit.

    >>> filled("{run.time_ns} of {bytes}, {share:.1%}", {"run": {"time_ns": 2.5e6}, "bytes": 4096, "share": None})
    '2.50 ms of 4KiB, -'
    """
    text = []
    for before, name, form, _ in Formatter().parse(template):
        text.append(before)
        if name is not None:
            value = computed[name](record) if computed and name in computed else _field(record, name)
            text.append(shown(name, value, form or ""))
    return "".join(text)


def _field(record: Any, path: str) -> Any:
    for name in path.split("."):
        if record is not None:
            if isinstance(record, Mapping):
                record = record[name]
            else:
                record = record[int(name)] if name.isdecimal() else getattr(record, name)
    return record


def shown(name: str, value: Any, form: str = "") -> str:
    """A figure by its name; a dash for none."""
    if value is None:
        return "-"
    if form or isinstance(value, str):
        return format(value, form)
    unit = next((make for end, make in UNITS.items() if name.endswith(end)), None)
    return unit(value) if unit else f"{value:,}" if isinstance(value, int) else str(value)
