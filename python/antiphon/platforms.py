"""Systems of one's own: a preset or a file, with parameters replaced, whose values may have units."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Any

from antiphon._core import System
from antiphon.arguments import expect
from antiphon.errors import AntiphonError
from antiphon.files import parse_json, parse_toml, read_text

LARGEST_FILE = 1 << 20
"""Files of systems are read whole; larger ones are refused."""
SUFFIXES = (".json", ".toml")
"""Of files of systems."""
CALIBRATION = "antiphon-calibrate/1"
"""Schema of the files of ``calibrate``."""
RATES = {
    f"{prefix}{unit}": Decimal(factor) * size / 10**9
    for prefix, factor in {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "T": 10**12}.items()
    for unit, size in {"B/s": Decimal(1), "b/s": Decimal("0.125"), "bit/s": Decimal("0.125")}.items()
} | {f"{prefix}iB/s": Decimal(1024**power) / 10**9 for power, prefix in enumerate("KMGT", 1)}
"""Units of rates, in GB/s."""
TIMES = {
    "ps": Decimal("0.001"),
    "ns": Decimal(1),
    "us": Decimal(1000),
    "µs": Decimal(1000),
    "ms": Decimal(10**6),
    "s": Decimal(10**9),
}
"""Units of times, in ns."""
UNITS = {"_gb_per_s": RATES, "_ns": TIMES}
"""Units of parameters, by the end of their keys."""
QUANTITY = re.compile(r"\s*(?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d{1,3})?|\.\d+))\s*(?P<unit>[A-Za-zµ/]+)\s*")
NOTHING = re.compile(r"\s*0+(?:\.0*)?\s*")
"""Zero, which needs no unit."""


def read_system(spec: str, changes: Mapping[str, Any] | None = None) -> System:
    """The system of a preset's name or a file, with parameters replaced, which its name then tells.

    A file is TOML or JSON: ``preset`` (default ``generic``), ``name``, and parameters as in ``changes``. JSON without
    ``preset`` is what ``System.to_json`` writes. Rates and times may have units, and then their keys go without:
    ``link_rate = "50GB/s"`` is ``link_rate_gb_per_s = 50``. ``endpoint`` may be a file of ``calibrate``, which results
    name as an endpoint and not in the name.

    >>> read_system("tto", {"link_latency": "1.5us"}).link_latency_ns
    1500.0

    Raises:
        AntiphonError: ``bad-file`` for the file; as ``System.with_``.
    """
    system = _from_file(spec) if spec.lower().endswith(SUFFIXES) else System(spec)
    if not changes:
        return system
    name = ", ".join([system.name, *(f"{key}={value}" for key, value in changes.items() if key != "endpoint")])
    return system.with_(**{"name": name, **_plain(changes)})


def read_endpoint(spec: str) -> str:
    """The specification of an endpoint, or that in a file of ``calibrate``, which ends in ``.json``: with options of
    one's own after a colon, ``FILE.json:sms=8``.

    Where the file has a law of contention, the slowdown of computation follows from it: by ``sms``, and by the pace of
    a reduction that reads ``memory_gb_per_s``, beside the file's first work, or that of the option ``beside``.

    Raises:
        AntiphonError: ``bad-file``; ``unknown-name`` for a work that the file does not have.
    """
    expect("endpoint", spec, str)
    if not (match := re.fullmatch(r"(?i)(.*?\.json)(?::(.*))?", spec)):
        if re.search(r"[./\\]", spec.partition(":")[0]):  # which no name has
            raise AntiphonError(f"{spec:.200}: the file of an endpoint must end in .json", "bad-file")
        return spec
    path, more = match[1], match[2] or ""
    _text, document = _read(path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != CALIBRATION:
        what = f"has {schema:.40}" if isinstance(schema, str) else "says no schema"
        raise AntiphonError(f"{path}: {what}, not {CALIBRATION}, as antiphon calibrate --out writes it", "bad-file")
    endpoint = document.get("endpoint")
    if not isinstance(endpoint, str):
        raise AntiphonError(f'{path}: has no "endpoint" such as "npu:sms=2"; antiphon calibrate writes one', "bad-file")
    name, _, settings = endpoint.partition(":")
    given = _options(more)
    beside = given.pop("beside", None)
    options = _options(settings) | given
    joined = ",".join(f"{key}={value}" for key, value in options.items())
    try:
        found = System().with_(endpoint=f"{name}:{joined}" if joined else name).endpoint
        law = document.get("contention")
        if beside is None and (law is None or "slowdown" in options):
            return found
        slower = _slowdown(law, beside, options)
        return System().with_(endpoint=f"{name}:{joined},slowdown={slower:.3f}").endpoint
    except AntiphonError as error:
        raise AntiphonError(f"{path}: {error.message.removeprefix('system: endpoint: ')}", error.code) from None


def _options(text: str) -> dict[str, str]:
    """``key=value,...``."""
    return {key: value for key, _, value in (pair.partition("=") for pair in text.split(",") if pair)}


MOST_SMS, MOST_SLOWDOWN = 1 << 20, 1000.0
COUNTED_READS = 2 / 3
"""Of the bytes that a reduction moves, an endpoint counts the two that it reads, not the one that it writes."""


def _slowdown(law: Any, beside: str | None, options: Mapping[str, str]) -> float:
    """How many times as long a work takes beside an endpoint, between the law's rows ``[sms, reduce_gb_per_s,
    slowdown]``; 1 without SMs, at most what is measured."""
    if law is None:
        raise AntiphonError('has no law of "contention"; leave the option beside out', "bad-file")
    if not isinstance(law, dict) or not law:
        raise AntiphonError('"contention" is no object of works, each with rows', "bad-file")
    name = beside or next(iter(law))
    rows = law.get(name)
    if rows is None:
        raise AntiphonError(f"nothing is measured beside '{name:.40}'; known: {', '.join(law)}", "unknown-name")
    by_sms: dict[float, list[tuple[float, float]]] = {0.0: [(0.0, 1.0)]}
    try:
        for sms, rate, slower in rows:
            if not (0 < sms <= MOST_SMS and 0 < rate < inf and 1 <= slower <= MOST_SLOWDOWN):
                raise ValueError
            by_sms.setdefault(float(sms), []).append((float(rate), float(slower)))
        if not rows:
            raise ValueError
    except (TypeError, ValueError):
        form = "[sms, reduce_gb_per_s, slowdown], at least one, with slowdowns of 1 to 1000"
        raise AntiphonError(f"rows of contention are {form}; those beside '{name:.40}' are not", "bad-file") from None
    if not {"sms", "memory_gb_per_s"} <= options.keys():
        raise AntiphonError("contention is by sms and memory_gb_per_s; give both", "bad-spec")
    pace = float(options["memory_gb_per_s"]) / COUNTED_READS
    counts = sorted(by_sms)
    slower = [between(pace, *zip(*sorted(by_sms[count]), strict=True)) for count in counts]
    return max(1.0, between(float(options["sms"]), counts, slower))


def parameter_names() -> list[str]:
    """What may be changed: keys of parameters, and those without a unit for values that have one."""
    names: list[str] = []
    for parameter in System().parameters():
        names.append(parameter.key)
        names += [parameter.key.removesuffix(end) for end in (*UNITS, "_bytes") if parameter.key.endswith(end)]
    return names


def between(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """The value at a place, on the straight line between those beside it; beyond the last, that.

    >>> between(1.5, [1, 2], [10, 20]), between(3, [1, 2], [10, 20])
    (15.0, 20)
    """
    after = bisect_left(places, at)
    if after in (0, len(places)):
        return values[max(after - 1, 0)]
    low, high = places[after - 1], places[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (at - low) / (high - low)


def _read(path: str) -> tuple[str, Any]:
    """The text of a file, and what it says."""
    text = read_text(path, LARGEST_FILE)
    try:
        return text, parse_toml(text) if path.lower().endswith(".toml") else parse_json(text)
    except ValueError as error:
        raise AntiphonError(f"{path}: {error if text.strip() else 'is empty'}", "bad-file") from None


def _from_file(path: str) -> System:
    text, document = _read(path)
    if not isinstance(document, dict):
        raise AntiphonError(f"{path}: is no table of parameters", "bad-file")
    try:
        if path.lower().endswith(".json") and "preset" not in document:
            return System.from_json(text)
        preset = document.pop("preset", "generic")
        if not isinstance(preset, str):
            raise AntiphonError(f"preset is {preset!r}; give the name of a preset (antiphon systems)", "bad-file")
        return System(preset).with_(**{"name": path, **_plain(document)})
    except AntiphonError as error:
        raise AntiphonError(f"{path}: {error.message}", error.code) from None


def _plain(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``System.with_``: quantities in the units of their parameters."""
    arguments: dict[str, Any] = {}
    known = {parameter.key for parameter in System().parameters()}
    for key, value in changes.items():
        name, argument = _converted(key, value, known)
        if name in arguments:
            raise AntiphonError(f"'{name}' is given twice", "bad-spec")
        arguments[name] = argument
    return arguments


def _converted(key: str, value: Any, known: set[str]) -> tuple[str, Any]:
    if not isinstance(value, str | int | float):
        raise AntiphonError(f"{key[:40]} is neither text nor a number", "bad-spec")
    text = value if isinstance(value, str) else ""
    quantity = QUANTITY.fullmatch(text)
    for suffix, units in UNITS.items():
        name = key if key.endswith(suffix) else key + suffix
        if quantity and name in known:
            factor = units.get(quantity["unit"])
            if factor is None:
                message = f"{key}={text[:40]}: no unit '{quantity['unit'][:20]}'; known: {', '.join(units)}"
                raise AntiphonError(message, "bad-spec")
            return name, float(Decimal(quantity["number"]) * factor)
        if name in known and (value == 0 or NOTHING.fullmatch(text)):  # in any unit
            return name, 0
    if key == "endpoint" and text:
        return key, read_endpoint(text)
    # Sizes have their units in the core.
    return (f"{key}_bytes" if f"{key}_bytes" in known and quantity else key), value
