"""Makes the page of all keys that commands print with ``--json``; docs/reference/json.md has what it does not say.

Meanings are those of the records, ``says("...")``, and of properties; what no record holds is in ``ASSEMBLED``.
Run as a program it prints the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import antiphon
from antiphon.collective.flights import FlightsRun
from antiphon.collective.result import Comparison, Run
from antiphon.library.tuner import Row as TunerRow
from antiphon.results.collective import Bound, Proof, SimulationResult
from antiphon.results.endpoint import EndpointUse
from antiphon.results.energy import Area, Energy
from antiphon.results.formats import FileProof
from antiphon.results.inference import Inference
from antiphon.results.llm import BestPlans, ConstantsFit, StepRun
from antiphon.results.network import EngineAdvice, NocResult, RailsAdvice, RailsFlights, RailsRun, Router, TreesAdvice
from antiphon.results.record import Record, parsed
from antiphon.results.records import Parameter
from antiphon.results.replanned import Replanned
from antiphon.results.scaled import AtScale
from antiphon.results.survival import Survival
from antiphon.results.training import Iteration
from antiphon.results.varied import BesideRun, Variations
from antiphon.training.replay import Replay
from antiphon.training.result import Training

UNITS = {
    "_gb_per_s": "GB/s",
    "_gib_per_s": "GiB/s",
    "_bit_per_s": "bit/s",
    "samples_per_s": "1/s",
    "_ns": "ns",
    "_us": "us",
    "_s": "s",
    "bytes": "bytes",
    "_percent": "%",
    "_js": "J s",
    "_j": "J",
    "_w": "W",
    "_mw": "mW",
    "_mj": "MJ",
    "_gib": "GiB",
    "_mm2": "mm2",
    "_um2": "um2",
    "_ghz": "GHz",
    "_mbit": "Mbit/s",
    "_cycles": "cycles",
}
"""The unit that the end of a key names; the first that fits."""
APART = {Run: "simulate", Bound: "bound", Energy: "energy", EndpointUse: "endpoint use"}
"""Records that have a section, to which others refer."""


class Of(NamedTuple):
    """What a field or property of a record means."""

    kind: type
    name: str


SCHEDULE: dict[str, str | Of] = {
    "fabric, algorithm, collective, root, bytes, matrix_bytes, ranks, excluded_ranks": "As in [simulate](#simulate).",
    "known_gaps": Of(Proof, "gaps"),
    "lanes, transfers": "How many were followed.",
}
ASSEMBLED: dict[str, dict[str, str | Of]] = {
    "simulate": {
        "tables.links": Of(SimulationResult, "links"),
        "tables.ranks": Of(SimulationResult, "ranks"),
        "tables.timeline": Of(SimulationResult, "timeline"),
        "tables.power": "With `--energy`: equal windows, `start_ns` and `power_w`.",
        "tables.link_energy": "With `--energy`: row `i` is link `i`, `energy_j`.",
    },
    "bound": {
        "fabric, group, collective, bytes, matrix_bytes, system": "As in [simulate](#simulate).",
        "lower_bound_ns": "No schedule takes less.",
        "bound": "An object with the keys below.",
    },
    "verify": {
        **SCHEDULE,
        "verified": "Every rank ends with the right bytes, and nothing can deadlock.",
        "counter_example": "The first thing that goes wrong, and the keys below are missing; null if it is proven.",
        "conflict_free": Of(Proof, "conflict_free"),
        "certified_ns": Of(Proof, "certified_ns"),
        "share_of_optimum": Of(Proof, "share_of_optimum"),
        "file": "Of a file of another tool, its name; then also the keys of [export](#export).",
        "schedule_lanes, schedule_transfers": "Of such a file: how many were followed in the schedule that it becomes.",
        "no_schedule": "Of such a file: why it becomes no schedule; missing if it does. `fabric` is then null.",
    },
    "export": {
        "fabric, algorithm, file": "What was written, and where.",
        "bytes": "With `--format chakra`: the full buffer.",
        "system_file": "With `--format chakra`: the entry of ASTRA-sim's system file that uses the files, such as"
        " `all-reduce-implementation-custom`.",
        "nodes, links": "Of a fabric alone: how many it has.",
    },
    "show": {
        **SCHEDULE,
        "node_count, link_count": "Of a fabric alone, with `--picture`: how many it has.",
        "verified": "As in [verify](#verify).",
        "messages": "Transfers times their chunks.",
        "steps": "Steps over all phases; of a schedule by a timetable, its slots.",
        "phases": "`name` and `steps` of each phase.",
        "used_links_percent": "Share of the links that are in use in the steady state, by steps.",
        "reduce_height_max, copy_height_max": "The most transfers that a contribution, or a result, goes through.",
        "lane_heights": "Row `i` is lane `i`: `reduce_height`, `copy_height`.",
        "link_bytes_max, link_bytes_mean": "Bytes on the wire, without headers, over all links.",
        "links_idle": "Links without traffic.",
        "links": "Row `i` is link `i` of the fabric: `from`, `to`, `bytes`.",
        "dimensions": "Of a product of dimensions, in the order of the sizes: `shape` (`line`, `ring`, `clique` or"
        " `switch`), `size`, `rate_gb_per_s` from a node to a neighbour, `latency_ns` between neighbours. Else empty.",
        "ports": "Of a fabric that can be configured: for each `configuration`, `router` and `port`, the segment that"
        " its `output` and `input` attach: `mesh`, one such as `x0 0>3`, or nothing.",
    },
    "flights": {
        "tables.links, tables.ranks, tables.timeline": "As in [simulate](#simulate), of all flights together.",
        "flights.name": "Of its entry; empty if that has none.",
        "flights.group": "Ranks that take part; null for all.",
        "flights.algorithm, flights.collective": "What was done.",
        "flights.bytes": "The full buffer.",
        "flights.priority, flights.after": "As given; `after` has numbers of flights.",
        "flights.start_ns, flights.finish_ns, flights.time_ns": "When it began and ended, and the time between.",
        "flights.lower_bound_ns": "The lower bound of this collective by itself.",
        "contended.link, contended.from, contended.to": "A link that several flights use, the busiest first.",
        "contended.busy_ns": "The time for which it is busy.",
        "contended.wait_ns": "The longest time that a flight waited for it; null at fidelity `flit`.",
        "contended.flights": "What each flight has of it: `flight`, `bytes` and `share` of its bytes.",
    },
    "noc": {
        "fabric, traffic, group": "What was run.",
        "unstable_rate": "With `--saturation`: the least rate that was found unstable; null if there is none.",
        "runs": "In the order of the rates, each with the keys below. With `--saturation`: the largest stable rate.",
    },
    "rails": {"runs": "With several schedulers, or flights: a list of objects, one for each scheduler."},
    "area": {"fabric, system, endpoint": "What was asked.", "cost": "As of [compare](#compare)."},
    "train": {
        "refused": "What was left out: `model`, `fabric`, `algorithm`, `reason`, `code`.",
        "runs": "With several models or fabrics: a list of such objects, without tables.",
        "tables.exchanges": Of(Iteration, "exchanges"),
        "tables.layers": Of(Training, "layers"),
        "against": "For each algorithm of `--against`, then each endpoint of `--against-endpoints`: `algorithm`,"
        " `endpoint`, `iteration_ns`, `communication_ns`, `exposed_communication_ns`, `iterations`, `epoch_ns`.",
        "against.gain_ns": "By how much an epoch with ALGORITHM is shorter.",
        "against.speedup": "How many times shorter it is; null if it takes no time.",
    },
    "replay": {
        "ranks, exchanges": "How many there are.",
        "tables.exchanges": Of(Replay, "exchanges"),
        "tables.ranks": Of(Replay, "ranks"),
    },
    "limits": {"group": "As in [simulate](#simulate)."},
    "replan": {"system": "The platform."},
    "beside": {"system": "The platform.", "tables.links": Of(BesideRun, "links")},
    "vary": {"system": "The platform.", "tables.draws": Of(Variations, "draws")},
    "tune": {
        "group": "As in [simulate](#simulate).",
        "selection": "What to use: `algorithm` from `from_bytes` on, up to the next row's.",
        "library, rows": "With `--out FILE.csv`, in place of the keys above: `nccl`, and rows for its tuner plugin.",
    },
    "calibrate": {
        "published": "What the ACE paper measured on eight V100 GPUs: `where` in it, `work`, `beside`, `slowdown`.",
        "contention": "Only in files with a law of measured contention: by what computes, rows"
        " `[sms, reduce_gb_per_s, slowdown]`.",
    },
    "study": {
        "file, command": "The file of the study, and the command that its points run.",
        "new_runs": "Points that this call ran.",
        "points.values": "The values of this point, by key.",
        "points.result": "What the command prints with `--json`, without `schema`, `version` and `tables`. `compare`,"
        " and `tune` of one size, add `best`: the first of `runs` or `choices`. Null if there is no result.",
        "points.refused": "Why there is no result: `reason` and `code`; else null. A fault or a process that died has"
        " `internal`, and the next call runs it again.",
        "stored": "With `--dry-run`: points that have a record. Each of `points` is then its values.",
    },
    "explore": {
        "points.name, points.fabric, points.algorithm": "A simulated design: the name of the fabric in the space, its"
        " specification, the algorithm. What varies besides has keys of its own: axes, `io` or `area` if they are"
        " equal, and parameters of the system in `set`.",
        "points.time_ns": "Sum of the times of all workloads, by their weights; `energy_j` likewise.",
        "points.energy_j": "Static and dynamic.",
        "points.area_mm2": "Of all routers.",
        "points.on_front": "Whether no other design beats it: as good in time, energy and area, and better in one.",
        "points.power_w": "Energy over time.",
        "points.times_ns": "With several workloads: the time of each.",
        "points.misses": "The constraint that it misses; null for none.",
        "points.ports, points.links, points.link_gb_per_s, points.io_gb_per_s, points.bisection_gb_per_s,"
        " points.wire_mm, points.longest_link_mm, points.beachfront_mm": "As of the cost of a fabric.",
        "sensitivity.parameter, sensitivity.factor": "A parameter, and what it is multiplied by, alone; of an axis the"
        " better of 2 and 0.5.",
        "sensitivity.time_ns, sensitivity.energy_j": "The least of the designs of the front then.",
        "sensitivity.fabric, sensitivity.algorithm": "The fastest of them.",
    },
    "discover": {
        "iterations": "Timed runs of each collective.",
        "hosts": "In the order of their ranks: `name`, `ranks`, and `ports`.",
        "hosts.ports": "`name`, `addresses` with masks, `speed_mbit` (what the port says of itself; 0: nothing),"
        " `mtu_bytes`, `carrier` (whether a cable is plugged in).",
        "links": "Two for each cable, there and back: `from` and `to` (hosts), `from_port`, `to_port`.",
        "links.rate_gb_per_s": "What the cable carried in this direction.",
        "links.latency_us": "Half of the round trip.",
        "links.lost": "Share of 600 datagrams that did not come; 1 where none did, as behind a firewall.",
        "links.cable": "Name of the cable. One that did not answer is only in `odd`.",
        "odd": "`link` (a cable, a host or `all cables`) and `what`: what is odd, and what to do.",
        "runs": "As in [antiphon.torch.bench](#antiphontorchbench); empty where cables do not join all hosts.",
        "unmeasured": "Why the process group failed while collectives were measured; else null.",
    },
    "antiphon.torch.bench": {
        "backend, ranks, element, iterations, warmup": "What was run.",
        "runs.collective": "What was done.",
        "runs.bytes": "The full buffer, as the NCCL tests count it.",
        "runs.elements": "Numbers in it.",
        "runs.time_us, runs.least_us, runs.most_us": "Median, least and most of the runs: from the first rank's call to"
        " the last rank's return; on several machines the time of the slowest rank after a barrier.",
        "runs.bus_bandwidth_gb_per_s": "As in [simulate](#simulate).",
        "runs.bound_us": "No plan is faster on the measured fabric; null for other backends.",
        "runs.predicted_us, runs.algorithm": "What the plan in use should take, and its algorithm; null likewise.",
        "runs.wrong": "Elements that are not as the collective defines, on all ranks and in all runs.",
    },
    "reproduce": {
        "paper, title": "The name of the paper here, and its title.",
        "quick": "Only a few points were run; `claims` is then empty.",
        "runs, new_runs, stale_runs": "Collectives that were needed; those not stored before; stored ones of another"
        " build, which are not used.",
        "report": "Path of the page.",
        "figures": "`name`, `title`, `summary` and `rows` of each; with `--list` only the first two.",
        "figures.summary": "For each `group` of rows: how many `rows`, how many `compared` with a published number,"
        " `agreeing`, and of these `by_rule`, within 5 % or rounding. `tolerance` names the other rules and why.",
        "figures.summary.error_mean, figures.summary.error_max, figures.summary.worst": "Errors as shares, null if"
        " nothing is published, and the row with the largest.",
        "figures.rows": "A number: `group`, `what`, `unit`; `paper` (stated), `artifact` (in its files), `reference`"
        " (of another model, never judged by), `ours`. Null where there is none.",
        "figures.rows.ratio": "Ours over the artifact's number, or else the paper's.",
        "figures.rows.tolerance, figures.rows.reason": "A share, and the reason for one of its own.",
        "figures.rows.verdict": "`holds`, `differs`, `nothing published`; `input`: taken from the paper; `fitted`: a"
        " fit used it, or it follows from fitted numbers alone. The last two never count.",
        "figures.rows.counts": "False where a row before it is held against the same number.",
        "figures.rows.note": "What is known about a difference.",
        "claims": "`figure` with which it is listed, `where` in the paper (`ours`: not the paper's), `text`; what"
        " `paper`, `artifact` and `ours` say.",
        "claims.verdict, claims.comment": "`holds`, `holds in part`, `does not hold` or `fitted`, and why.",
    },
    "step": {
        "rows": "With `--table`, instead of all else: the rows of the table, with `predicted_ms` or `predicted_s`, and"
        " `predicted_tflops_per_gpu` where it has `tflops_per_gpu`.",
    },
    "lists": {
        "fabrics": "Of `fabrics`: `kind`, `example` (a complete specification), `summary`.",
        "algorithms": "Of `algorithms`: `name`, `summary`, `options` (parameters), `source`, `collectives`.",
        "workloads": "Of `workloads`: `name`, `summary`, `source`.",
        "compute_models": "Of `workloads`: `name`, `summary`, `options` (parameters).",
        "models": "Of `models`: `name`, `parameters`, `active_parameters` (of routed experts those that a token goes"
        " to), `layers`, `hidden` (width), `vocab` (words), `sequence` (tokens), `source`.",
        "layers": "Of `models NAME`: as of [step](#step).",
        "plan_options": "Of `models`: parameters that a plan may give.",
        "constants": "Of `models`: what is known of an accelerator, as a file has it: `name`; `tflops` of products in"
        " 16 bits and `fp8_tflops` in 8; `memory_gb_per_s`; `memory_gib`; `power_w`; `product_efficiency`, the share"
        " of the peak that large products reach; `product_half_gflop`, operations of a product that reaches half of"
        " it, in 10^9; `attention_share` of that efficiency in core attention; `host_ms`, the least time of a layer;"
        " `optimizer_bytes` of memory traffic for each parameter; `beside_exchange`, how many times as long it"
        " computes beside an exchange; `all_reduces` measured in a box; `rows`, what tables of steps take; what was"
        " `fitted`, and `sources`.",
        "constants.rows": "`fabric`, `gpus_per_box`, `plan`, `vocab`.",
        "endpoints": "Of `endpoints`: `name`, `stands_for` (its whole specification), `summary`, `options`.",
        "systems": "Of `systems`: `name`, `summary`, and `parameters`, which `System.from_json` reads: `name`,"
        " `description`, what the settings' `json` names, and a `processor`, a compute model with the `json` of its"
        " options. Each of `protocols` has `name`, `launch_ps`, `step_ps` and"
        " `rate_ppm`, its share of a link's rate in millionths.",
        "settings": "Of `systems`: the parameters that `--set` and `System.with_` replace; with NAME its values.",
    },
}
"""Keys of objects that a command puts together, by heading; with commas, several that have one meaning."""
KINDS: dict[str, dict[str, type]] = {
    "simulate": {"": Run},
    "compare": {"": Comparison},
    "bound": {"": Bound},
    "energy": {"": Energy},
    "endpoint use": {"": EndpointUse},
    "verify": {},
    "export": {"": FileProof},
    "show": {},
    "flights": {"": FlightsRun},
    "beside": {"": BesideRun},
    "vary": {"": Variations},
    "tune": {"": antiphon.Tuning, "Each of `rows`, with `--out FILE.csv`:": TunerRow},
    "limits": {"": antiphon.Limits},
    "configure": {"": antiphon.Configured},
    "replan": {"": Replanned},
    "survive": {"": Survival},
    "scale": {"": AtScale},
    "noc": {"": NocResult},
    "area": {"": Area},
    "rails": {"": RailsRun, "Each of `runs` with `--flights FILE`:": RailsFlights},
    "advise rails": {"": RailsAdvice},
    "advise ace": {"": EngineAdvice},
    "advise trees": {"": TreesAdvice},
    "train": {"": Training},
    "step": {"": StepRun},
    "fit": {"": ConstantsFit},
    "plan": {"": BestPlans},
    "infer": {"": Inference},
    "replay": {"": Replay},
    "run": {"": antiphon.Measurement, "With `--chain`, as `testbed` has it, too:": antiphon.ChainMeasurement},
    "testbed": {"": antiphon.Emulated},
    "expect": {"": antiphon.Expectation},
    "calibrate": {"": antiphon.Calibration},
    "discover": {},
    "antiphon.torch.bench": {},
    "study": {},
    "explore": {"": antiphon.Exploration},
    "reproduce": {},
    "lists": {"A parameter:": Parameter},
}
"""The records of each heading of the page, in its order, and what stands above their tables."""
SCHEMAS = {
    "energy": "",
    "endpoint use": "",
    "antiphon.torch.bench": "antiphon-bench/1",
    "lists": "antiphon-COMMAND/1",
}
"""Schemas that are not called as their command."""
INTRODUCTION = """# JSON keys

For those who read results with a program: every key that a command prints with `--json`. This page is made from the
code. [JSON output](json.md) has the conventions, and the files that commands read. `a.b` is the key `b` of the object,
or of each object in the list, `a`.
"""


def page() -> str:
    """The page in Markdown, links relative to docs/reference.

    Raises:
        ValueError: naming what has no meaning.
    """
    texts = [INTRODUCTION]
    for heading in KINDS:
        schema = SCHEMAS.get(heading, f"antiphon-{heading.partition(' ')[0]}/1")
        texts.append(f"## {heading}\n\n{schema and f'Schema `{schema}`.'}\n\n{section(heading)}")
    return "\n".join(texts)


def section(heading: str) -> str:
    """The tables under a heading: what is assembled at first, but what is within what a record has behind that."""
    apart = [
        (names, told if isinstance(told, str) else meaning(told.kind, told.name))
        for names, told in ASSEMBLED.get(heading, {}).items()
    ]
    known = {name for names, _ in apart for name in names.split(", ")}
    tables: list[str] = []
    for caption, kind in KINDS[heading].items() or [("", object)]:
        rows = [row for row in of_record(kind) if row[0] not in known]
        if not caption:
            inner = [row for row in apart if rows and "." in row[0]]
            rows = [row for row in apart if row not in inner] + rows + inner
        elif not tables and apart:
            tables.append(table(apart))
        tables.append(caption + "\n\n" * bool(caption) + table(rows))
    return "\n".join(tables)


def of_record(kind: type) -> Iterator[tuple[str, str]]:
    """Keys, as ``outer.inner``, and meanings of a record, or of a plain one that says its attributes."""
    if kind is Router:
        yield from ((each.key, f"{each.meaning}.") for each in antiphon.router_parameters())
        return
    if not issubclass(kind, Record):
        for name, told in re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", kind.__doc__ or "", re.MULTILINE):
            yield name, told
        return
    for each in fields(kind):  # type: ignore[arg-type]
        for key, _, row, path in parsed(each.metadata.get("json", each.name)):
            inner = held(kind, path)
            told = meaning(kind, path, each.metadata.get("meaning", ""))
            if row is not None:
                told = f"{told.rstrip('.')}: {', '.join(f'`{name}`' for name in row)}."
            if inner is None or inner in APART:
                yield key, told if inner is None else f"{told} See [{APART[inner]}](#{APART[inner].replace(' ', '-')})."
            else:
                yield key, told
                yield from ((f"{key}.{name}", said) for name, said in of_record(inner))


def held(kind: type, path: str) -> type | None:
    """The record that is at a path, by itself or in a list."""
    for name in path.split("."):
        kind = typed(kind, name) or object
    return kind if issubclass(kind, Record) else None


def typed(kind: type, name: str) -> type | None:
    """The kind of the field or property of this name, that of the elements if it is a list."""
    note = next((each.type for each in fields(kind) if each.name == name), "") if is_dataclass(kind) else ""
    if not note and isinstance(found := getattr(kind, name, None), property) and found.fget is not None:
        note = getattr(found.fget, "__annotations__", {}).get("return", "")
    for word in re.findall(r"\w+", str(note)):
        found = RECORDS.get(word) or getattr(antiphon, word, None)
        if isinstance(found, type):
            return found
    return None


def meaning(kind: type, path: str, otherwise: str = "") -> str:
    """What the field, property or method at a path means; ``otherwise`` where nothing there says it."""
    *outer, name = path.split(".")
    for each in outer:
        kind = typed(kind, each) or object
    if is_dataclass(kind):
        for field in fields(kind):
            if field.name == name and "meaning" in field.metadata:
                return str(field.metadata["meaning"])
    documented = (getattr(getattr(kind, name, None), "__doc__", None) or "").split("\n\n")[0] or otherwise
    if not documented:
        raise ValueError(f"nothing says what {path} of {kind.__name__} means")
    return documented


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Keys, units and meanings in Markdown."""
    lines = ["| Key | Unit | Meaning |", "|---|---|---|"]
    for names, told in rows:
        shown = ", ".join(f"`{name}`" for name in names.split(", "))
        units = {unit(name) for name in names.split(", ")}
        lines.append(f"| {shown} | {units.pop() if len(units) == 1 else ''} | {plain(told)} |")
    return "\n".join(lines) + "\n"


def unit(name: str) -> str:
    """The unit that a key names, or what it is in."""
    ends = (unit for part in reversed(name.split(".")) for end, unit in UNITS.items() if part.endswith(end))
    return next(ends, "")


def plain(told: str) -> str:
    """A meaning as the page has it: a sentence in Markdown, of JSON in place of Python, with links to pages."""
    text = " ".join(told.split()).replace("``", "`").replace("|", "\\|")
    text = re.sub(r"\bNone\b|\bNaN\b", "null", text)
    text = re.sub(r"docs/(\w+)/([\w-]+)\.md", lambda found: link(*found.groups()), text)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def link(folder: str, name: str) -> str:
    """A link to a page of the documentation."""
    return f"[{name}]({name}.md)" if folder == "reference" else f"[{name}](../{folder}/{name}.md)"


def subclasses(kind: type[Any]) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


RECORDS: dict[str, Any] = {each.__name__: each for each in subclasses(Record)}
"""All records by name."""

if __name__ == "__main__":
    print(page(), end="")
