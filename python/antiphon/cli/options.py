"""Arguments and options that commands share."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

import antiphon
from antiphon.cli.documented import Section
from antiphon.collective.specs import known_names
from antiphon.errors import AntiphonError, harmless
from antiphon.llm.given import all_constants
from antiphon.parallel import MOST_JOBS
from antiphon.platforms import parameter_names, read_endpoint, read_system


def completing(
    *known: Callable[[], Sequence[str]], several: bool = False, files: bool = False
) -> Callable[[Any, Any, str], list[CompletionItem]]:
    """Shell completion from lists of names, of ``several`` with commas that of the last; or of ``files``."""

    def complete(_context: Any, _parameter: Any, typed: str) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",") if several else ("", "", typed)
        found = [CompletionItem(before + comma + name) for of in known for name in of() if name.startswith(last)]
        # Shells complete a file where there is nothing else.
        return [CompletionItem(typed, type="file"), *found] if files else found

    return complete


FILE = completing(files=True)
"""Completion of files alone."""


def algorithm_specs() -> list[str]:
    """Names of algorithms, and their options behind them."""
    names = [f"{known.name}:{option.key}=" for known in antiphon.algorithms() for option in known.options]
    return [*known_names(), *names]


def endpoint_specs() -> list[str]:
    """Names of endpoints, and their options behind them."""
    names = [f"{known}:{option.key}=" for known in antiphon.endpoints() for option in known.options]
    return [*antiphon.endpoints(), *names]


FABRICS = completing(antiphon.fabrics, files=True)
COMPLETIONS = {
    "fabric": FABRICS,
    "fabrics": FABRICS,
    "where": FABRICS,
    "algorithm": completing(algorithm_specs),
    "algorithms": completing(algorithm_specs, several=True),
    "against": completing(algorithm_specs, several=True),
    "exchange": completing(algorithm_specs),
    "against_endpoints": completing(endpoint_specs, several=True),
    "model": completing(antiphon.workloads, several=True, files=True),
    "step model": completing(antiphon.large_models, files=True),
    "plan model": completing(antiphon.large_models, files=True),
    "infer model": completing(antiphon.large_models, files=True),
    "models name": completing(antiphon.large_models, files=True),
    "constants": completing(lambda: [each["name"] for each in all_constants()], files=True),
    "topology": completing(antiphon.rails_topologies),
    "traffic": completing(antiphon.traffic_patterns),
    "scheduler": completing(antiphon.rails_schedulers),
    "compute": completing(antiphon.compute_models),
    "endpoint": completing(endpoint_specs, files=True),
    "algorithms name": completing(known_names),
    "fit": FILE,
    "systems name": completing(antiphon.systems, files=True),
    "endpoints name": completing(antiphon.endpoints, files=True),
    **dict.fromkeys(
        ("file", "out", "report", "picture", "trace", "schedule", "chakra", "calibration", "comm_groups"), FILE
    ),
}
"""What shells complete arguments and options from, by their names, or by command and name."""
METAVARS = {
    "against": "A,B,...",
    "against_endpoints": "A,B,...",
    "chakra": "PREFIX",
    "constants": "NAME|FILE",
    "plan": "KEY=VALUE,...",
    "link_rate": "RATE",
    "timeout_s": "SECONDS",
    "switch": "TIME",
    "placement": "RANKS",
    "rate": "X[,Y,...]",
    "traffic": "|".join(antiphon.traffic_patterns()),
    "endpoint": "NAME[:KEY=VALUE,...]|FILE",
    "file": "FILE",
    "fit": "OUT.toml",
    "log": "FILE",
    "fabrics": "FABRIC...",
}
"""How values are written, by the names of what takes them."""


def read_fabric(spec: str, whole: str = "") -> antiphon.Fabric:
    """The fabric of ``spec``, a part of ``whole``; what was taken where its file says nothing is printed for people.
    If it is a rails topology, the error says where it can be used."""
    try:
        fabric = antiphon.Fabric(spec)
        for note in fabric.notes:
            click.echo(f"note: {harmless(note)}", err=True)
        return fabric
    except AntiphonError as error:
        for text in ((whole or spec).removeprefix("rails:"), spec.removeprefix("rails:")):
            if is_right(antiphon.advise_rails, text):
                message = f"'{text}' is no fabric but a rails topology"
                if error.code == "too-large":
                    message = f"{error.message}, but a rails topology may have them"
                raise AntiphonError(f"{message}; write train MODEL rails:{text}, or rails {text}", error.code) from None
        if error.code == "too-large" and spec.startswith("mesh:"):
            message = f"{error.message}; antiphon scale takes meshes of up to 131072"
            raise AntiphonError(message, error.code) from None
        raise


def is_right(take: Callable[[str], object], text: str) -> bool:
    """Whether a text, such as a specification, is what something takes."""
    try:
        take(text)
    except AntiphonError:
        return False
    return True


SECONDS = {"": 1, "s": 1, "ms": 0.001, "min": 60, "h": 3600}
"""Units of a time limit."""


def _seconds(text: str | None) -> float | None:
    """The seconds of a time limit."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([a-z]*)", text)
    if not found or found[2] not in SECONDS or not float(found[1]):
        what = f"--time-limit is '{text[:40]}', not a time above 0; write for example 90s, 5min or 2h"
        raise AntiphonError(what, "bad-size")
    return float(found[1]) * SECONDS[found[2]]


def _read_system(spec: str, settings: Sequence[str], endpoint: str | None) -> antiphon.System:
    """The system of a preset or file and of ``KEY=VALUE`` settings, with an endpoint if one is given."""
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise AntiphonError(f"--set takes KEY=VALUE, not '{setting[:40]}'", "bad-spec")
        if key in changes:
            raise AntiphonError(f"--set gives '{key[:40]}' twice", "bad-spec")
        changes[key] = value
    system = read_system(spec, changes)
    return system if endpoint is None else system.with_(endpoint=read_endpoint(endpoint))


def _once(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """The only group."""
    if len(given) > 1:
        raise click.UsageError("--group is given twice; several groups are for --groups FILE")
    return given[0] if given else None


def kept(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Keeps what is given for the option that needs it."""
    return lambda context, _parameter, given: context.meta.update({key: given})


def _platform(context: click.Context, _parameter: click.Parameter, name: str) -> antiphon.System:
    return _read_system(name, context.meta["settings"], context.meta["endpoint"])


OPENED = "antiphon.open"
"""Whether a page is to be shown, among what a command keeps."""


def _page(context: click.Context, _parameter: click.Parameter, path: str | None) -> str | None:
    """The file of a page: to be shown without a name, one in a temporary folder, which is gone if it stays empty."""
    if path is None and context.meta[OPENED]:
        folder = tempfile.mkdtemp(prefix="antiphon-")
        context.call_on_close(partial(_removed, folder))
        return os.path.join(folder, f"{context.command.name}.html")
    return path


def _removed(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


class Shared:
    """An option that several commands take: what the help says, in which section, other names, what holds if it has no
    default, in words, and settings of click."""

    def __init__(self, help: str, section: str, *names: str, unless: str = "", **settings: Any) -> None:
        self.help, self.section, self.names, self.settings = help, section, names, settings
        self.unless = f"  [default: {unless}]" if unless else ""

    def option(self, key: str, default: Any = None, help: str = "") -> Section:
        """The option for an argument ``key``; ``help`` replaces what it says."""
        shown = {} if default is None else {"default": default, "show_default": True}
        text = (help or self.help) + (self.unless if default is None else "")
        names = self.names or ("--" + key.replace("_", "-"),)
        return Section([*names, key], section=self.section, help=text, **{**shown, **self.settings})


_FILE: dict[str, Any] = {"metavar": "FILE", "shell_complete": FILE}
_OWN: dict[str, Any] = {"is_eager": True, "expose_value": False}
SHARED: dict[str, dict[str, Shared]] = {
    key: {key: option}
    for key, option in {
        "collective": Shared("What to compute.", "Collective", shell_complete=completing(antiphon.collectives)),
        "size": Shared("Full buffer size.", "Collective", "--bytes", unless="64MiB"),
        "root": Shared("Root rank.", "Collective", type=click.IntRange(0, 2**32 - 1)),
        "matrix": Shared(
            "For all-to-all, instead of --bytes: a line for each rank, with its bytes for every rank "
            "(docs/reference/cli.md).",
            "Collective",
            **{**_FILE, "metavar": "FILE.csv"},
        ),
        "fidelity": Shared(
            "In how much detail.",
            "Time",
            metavar="|".join(antiphon.fidelities()),
            shell_complete=completing(antiphon.fidelities),
        ),
        "algorithms": Shared(
            "Default: all that are known. Repeatable.",
            "Algorithms",
            multiple=True,
            metavar="A,B,...",
            shell_complete=completing(algorithm_specs, several=True),
        ),
        "schedule": Shared(
            "A schedule from a file instead of ALGORITHM: JSON, or of another tool (docs/reference/formats.md).",
            "Algorithms",
            **_FILE,
        ),
        "schedules": Shared(
            "Also a schedule from a file, JSON or of another tool (docs/reference/formats.md); it says what all do. "
            "Repeatable.",
            "Algorithms",
            "--schedule",
            multiple=True,
            **_FILE,
        ),
        "group": Shared(
            "Only these ranks take part, others forward: 0,1,8 or 0-3,8-11.",
            "Ranks",
            multiple=True,
            metavar="RANKS",
            callback=_once,
        ),
        "groups": Shared(
            "Each of these groups, by itself.", "Ranks", metavar="rows|columns|dimension=K|package|DIMS of GRID|FILE"
        ),
        "energy": Shared("Also energy and power (docs/explanation/energy.md).", "Time", is_flag=True),
        "trace": Shared(
            "Also write what each link and rank did when, for Perfetto or chrome://tracing "
            "(docs/reference/formats.md).",
            "Output",
            **{**_FILE, "metavar": "OUT.json"},
        ),
        "picture": Shared("Also draw it.", "Output", **{**_FILE, "metavar": "OUT.svg"}),
        "jobs": Shared("Runs at a time.  [default: as many as cores]", "Running", type=click.IntRange(1, MOST_JOBS)),
        "time_limit_s": Shared(
            "",
            "Running",
            "--time-limit",
            unless="none",
            metavar="TIME",
            callback=lambda _context, _parameter, given: _seconds(given),
        ),
    }.items()
}
"""Options that several commands take, by the names of their arguments."""
SHARED["report"] = {
    "report": Shared(
        "Also write a self-contained HTML page.",
        "Output",
        **{**_FILE, "metavar": "OUT.html", "callback": _page},
    ),
    "opened": Shared(
        "Show the page in a browser when done; without --report it is in a temporary folder.",
        "Output",
        "--open",
        is_flag=True,
        callback=kept(OPENED),
        **_OWN,
    ),
}
"""A page, and whether it is shown."""
SHARED["system"] = {
    "system": Shared(
        "Platform: a preset, or one of your own in .toml or .json (docs/reference/cli.md).",
        "System",
        metavar="NAME|FILE",
        callback=_platform,
        shell_complete=completing(antiphon.systems, files=True),
    ),
    "settings": Shared(
        "Replace a parameter of the system (antiphon systems NAME), such as link_rate=50GB/s. Repeatable.",
        "System",
        "--set",
        multiple=True,
        metavar="KEY=VALUE",
        callback=kept("settings"),
        shell_complete=completing(lambda: [f"{name}=" for name in parameter_names()]),
        **_OWN,
    ),
    "endpoint": Shared(
        "What stands between memory and links where a run is timed: system, ideal, npu, ace, a preset "
        "(docs/explanation/endpoints.md), or a file of antiphon calibrate.  [default: system]",
        "System",
        callback=kept("endpoint"),
        metavar="NAME[:KEY=VALUE,...]|FILE",
        shell_complete=completing(endpoint_specs, files=True),
        **_OWN,
    ),
}
