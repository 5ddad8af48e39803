"""The command line. Its arguments and the keys of ``--json`` (docs/json.md) are stable."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class
from rich.console import Console
from rich.table import Table
from rich.text import Text

import antiphon
from antiphon.comparison import bound_dict, known_names, split_algorithms
from antiphon.errors import AntiphonError
from antiphon.files import discard_unfinished, written_whole
from antiphon.terminal import (
    open_console,
    print_comparison,
    print_json,
    print_list,
    print_noc,
    print_run,
    progress_bar,
    right_aligned,
    rows_of,
)
from antiphon.text import format_time

LARGEST_SCHEDULE = 1 << 30
"""Schedule files are read whole; larger ones are refused."""

F = TypeVar("F", bound=Callable[..., Any])


class Cli(click.Group):
    """Ends every failure with one line on stderr: exit status 2, or 130 after Ctrl-C."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        arguments = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in arguments
        arguments = [argument for argument in arguments if argument != "--debug"]
        extra["standalone_mode"] = False
        try:
            _prepare_output()
            _check_text(arguments)
            status = super().main(arguments, prog_name or "antiphon", **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else "", err=True)
            sys.exit(2)
        except click.ClickException as error:
            _fail(error.format_message(), debug)
        except AntiphonError as error:
            _fail(error.message, debug)
        except BrokenPipeError:
            # The reader has gone: say nothing, and keep Python from flushing into the pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:  # those of files the user names have become AntiphonErrors
            with suppress(OSError):
                sys.stdout.flush()
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _fail(f"the output cannot be written: {error.strerror or error}", debug)
        except MemoryError:
            _fail("out of memory; use a smaller fabric or size", debug)
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            _fail(f"internal error: {what}; please report it with the output of the same command and --debug", debug)
        sys.exit(status or 0)

    def invoke(self, ctx: click.Context) -> Any:
        # The work is done in a thread, so that Ctrl-C is heard while the core computes.
        outcome: list[Any] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(super(Cli, self).invoke(ctx))
            except BaseException as error:
                failure.append(error)
            finally:
                done.set()

        done = threading.Event()
        try:
            threading.Thread(target=work, daemon=True).start()
            while not done.wait(0.05):
                pass
            if failure:
                raise failure[0]
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            if not done.is_set():
                # The thread cannot be stopped: leave at once, and nothing half-written behind.
                discard_unfinished()
                Console(stderr=True).show_cursor(True)
                sys.stdout.flush()
                os._exit(130)
            ctx.exit(130)
        return outcome[0]


def _fail(message: str, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


def _prepare_output() -> None:
    """Output that a stream cannot take, such as µ in ASCII, is replaced; a closed stdout is ignored."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _check_text(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise AntiphonError(f"argument {argument!a} is not valid UTF-8", "bad-spec") from None


def _complete(*known: Callable[[], Sequence[str]]) -> Callable[[Any, Any, str], list[CompletionItem]]:
    """Shell completion from lists of names."""

    def complete(_context: Any, _parameter: Any, typed: str) -> list[CompletionItem]:
        return [CompletionItem(name) for names in known for name in names() if name.startswith(typed)]

    return complete


def _fabric_kinds() -> list[str]:
    return [kind for kind, _example, _summary in antiphon.fabrics()]


FABRIC = click.argument("fabric", shell_complete=_complete(_fabric_kinds))
ALGORITHM = click.argument("algorithm", shell_complete=_complete(known_names))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")


def _fidelity(text: str) -> Callable[[F], F]:
    complete = _complete(antiphon.fidelities)
    return click.option("--fidelity", default="packet", show_default=True, help=text, shell_complete=complete)


def problem(function: F) -> F:
    """The options that say what is to be done, and on what."""
    for option in (
        click.option(
            "--system",
            default="generic",
            show_default=True,
            help="Preset of link, packet and endpoint parameters.",
            shell_complete=_complete(antiphon.systems),
        ),
        click.option("--bytes", "size", default="64MiB", show_default=True, help="Full buffer size."),
        click.option("--root", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Root rank."),
        click.option(
            "--collective",
            default="all-reduce",
            show_default=True,
            help="What to compute.",
            shell_complete=_complete(antiphon.collectives),
        ),
    ):
        function = option(function)
    return function


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(antiphon.__version__, prog_name="antiphon")
@click.option("--debug", is_flag=True, expose_value=False, help="Print the traceback of an error (works anywhere).")
def main() -> None:
    """Collective communication on accelerator fabrics: proven, bounded and timed."""


@main.command()
@FABRIC
@problem
@click.option("--algorithms", multiple=True, metavar="A,B,...", help="Default: all that are known. Repeatable.")
@_fidelity("alpha-beta, packet or flit, or several with commas, side by side.")
@click.option("--report", metavar="OUT.html", help="Also write a self-contained HTML report.")
@JSON
def compare(
    fabric: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    algorithms: tuple[str, ...],
    fidelity: str,
    report: str | None,
    as_json: bool,
) -> None:
    """Compare algorithms: each proven, timed, and set against the lower bound.

    An algorithm is NAME[:KEY=VALUE,...], for example tto:chunk=96KiB.
    """
    specs = split_algorithms(algorithms) if algorithms else None
    with written_whole(report, ".html") if report is not None else nullcontext() as report_file:
        network = antiphon.Fabric(fabric)
        with progress_bar() as progress:
            comparison = antiphon.compare(
                network, collective, size, specs, system, fidelity, root=root, progress=progress
            )
        if as_json:
            print_json("compare", comparison.to_dict())
        else:
            print_comparison(comparison)
        if not comparison.runs:
            raise AntiphonError(f"no algorithm could do {collective} on {comparison.fabric}", "not-applicable")
        if report_file is not None:
            from antiphon.report import render

            report_file.write(render(network, comparison))
    if report is not None and not as_json:
        open_console().print(f"Report: {report}", style="dim")


@main.command()
@FABRIC
@ALGORITHM
@problem
@_fidelity("alpha-beta, packet or flit.")
@JSON
def simulate(
    fabric: str,
    algorithm: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    fidelity: str,
    as_json: bool,
) -> None:
    """Prove and time one algorithm."""
    network = antiphon.Fabric(fabric)
    schedule = antiphon.build(network, algorithm, collective, size, system, root)
    with progress_bar() as progress:
        run = antiphon.run(network, schedule, system, fidelity, progress=lambda share: progress(algorithm, share))
    if as_json:
        tables = {name: rows_of(getattr(run.result, name)) for name in ("links", "ranks", "timeline")}
        print_json("simulate", run.to_dict() | {"tables": tables})
    else:
        print_run(run)


@main.command()
@FABRIC
@click.argument("algorithm", required=False, shell_complete=_complete(known_names))
@problem
@click.option("--schedule", "path", metavar="FILE", help="Verify a schedule from a JSON file instead.")
@JSON
def verify(
    fabric: str,
    algorithm: str | None,
    collective: str,
    root: int,
    size: str,
    system: str,
    path: str | None,
    as_json: bool,
) -> None:
    """Prove that a schedule is correct, or print the first counter-example."""
    if (algorithm is None) == (path is None):
        raise click.UsageError("give either an ALGORITHM or --schedule FILE")
    network = antiphon.Fabric(fabric)
    if path is not None:
        try:
            schedule = antiphon.Schedule.from_json(_read(path), network)
        except AntiphonError as error:
            message = error.message if error.message.startswith(f"{path}: ") else f"{path}: {error.message}"
            raise AntiphonError(message, error.code) from None
    else:
        schedule = antiphon.build(network, algorithm or "", collective, size, system, root)
    document = _schedule_dict(network, schedule)
    try:
        proof = antiphon.verify(network, schedule)
    except AntiphonError as error:
        if as_json and error.code == "not-proven":
            print_json("verify", document | {"verified": False, "counter_example": error.message})
        raise
    document |= {
        "verified": proof.complete,
        "counter_example": None,
        "known_gaps": proof.gaps,
        "conflict_free": proof.conflict_free,
        "lanes": proof.lanes,
        "transfers": proof.transfers,
    }
    if as_json:
        print_json("verify", document)
    elif proof.complete:
        conflicts = ", and no two messages of a step share a link" if proof.conflict_free else ""
        open_console().print(
            f"✓ {schedule.algorithm} on {network.name}: proven; every rank ends with the right bytes{conflicts}"
            f" ({proof.lanes:,} lanes, {proof.transfers:,} transfers)"
        )
    if not proof.complete:
        raise AntiphonError(f"{schedule.algorithm} on {network.name} is incomplete: {proof.gaps}", "not-proven")


@main.command()
@FABRIC
@problem
@JSON
def bound(fabric: str, collective: str, root: int, size: str, system: str, as_json: bool) -> None:
    """Print how fast any schedule could be."""
    network = antiphon.Fabric(fabric)
    lower = antiphon.lower_bound(network, collective, size, system, root)
    total = antiphon.parse_bytes(size)
    if as_json:
        document = {"fabric": network.name, "collective": collective, "bytes": total, "system": system}
        print_json("bound", document | {"lower_bound_ns": lower.time_ns, "bound": bound_dict(lower)})
        return
    table = Table(
        "Bound",
        right_aligned("Time"),
    )
    for name in ("volume", "cut", "latency", "strength"):
        value = getattr(lower, f"{name}_ns")
        binding = name == lower.binding
        text = "not applicable" if value is None else format_time(value)
        table.add_row(name, text + (" (binding)" if binding else ""), style="bold" if binding else "")
    console = open_console()
    console.print(f"{collective} of {antiphon.format_bytes(total)} on {network.name}, system {system}")
    console.print(table)


@main.command()
@FABRIC
@ALGORITHM
@problem
@click.option("--schedule-json", "path", metavar="OUT.json", help="Also write the schedule.")
@JSON
def show(
    fabric: str,
    algorithm: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    path: str | None,
    as_json: bool,
) -> None:
    """Print the figures of a schedule that need no simulation."""
    with written_whole(path, ".json") if path is not None else nullcontext() as file:
        network = antiphon.Fabric(fabric)
        schedule = antiphon.build(network, algorithm, collective, size, system, root)
        proof = antiphon.verify(network, schedule)
        stats = schedule.stats(network)
        if file is not None:
            file.write(schedule.to_json())
    link_bytes = stats.links["bytes"]
    document = _schedule_dict(network, schedule) | {
        "verified": proof.complete,
        "known_gaps": proof.gaps,
        "lanes": proof.lanes,
        "transfers": stats.transfers,
        "messages": stats.messages,
        "steps": stats.steps,
        "phases": [{"name": name, "steps": steps} for name, steps in stats.phases],
        "used_links_percent": stats.used_links_percent,
        "reduce_height_max": int(stats.lanes["reduce_height"].max(initial=0)),
        "copy_height_max": int(stats.lanes["copy_height"].max(initial=0)),
        "link_bytes_max": int(link_bytes.max(initial=0)),
        "link_bytes_mean": float(link_bytes.mean()),
        "links_idle": int((link_bytes == 0).sum()),
    }
    if as_json:
        links = {"from": network.links["from"], "to": network.links["to"], "bytes": link_bytes}
        print_json("show", document | {"lane_heights": rows_of(stats.lanes), "links": rows_of(links)})
        return
    table = Table(show_header=False, title=f"{schedule.algorithm} on {network.name}")
    for label, value in (
        ("Collective", f"{schedule.collective} of {antiphon.format_bytes(schedule.bytes)}"),
        ("Proof", "✓ complete" if proof.complete else f"incomplete: {proof.gaps}"),
        ("Excluded ranks", ", ".join(map(str, schedule.excluded)) or "none"),
        ("Steps", f"{stats.steps:,} ({', '.join(f'{name} {steps:,}' for name, steps in stats.phases)})"),
        ("Links in use, steady state", f"{stats.used_links_percent:.1f} %"),
        ("Links without traffic", f"{document['links_idle']:,} of {len(link_bytes):,}"),
        ("Height of reduction / broadcast", f"{document['reduce_height_max']} / {document['copy_height_max']}"),
        ("Lanes, transfers, messages", f"{proof.lanes:,}, {stats.transfers:,}, {stats.messages:,}"),
        ("Bytes per link, mean / max", f"{document['link_bytes_mean']:,.0f} / {document['link_bytes_max']:,}"),
    ):
        table.add_row(label, value)
    open_console().print(table)


class Sectioned(click.Command):
    """Lists its options in the sections they name."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        for option in sorted(options, key=lambda option: not isinstance(option, SectionedOption)):
            if record := option.get_help_record(ctx):
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class SectionedOption(click.Option):
    """An option of a section of the help."""

    def __init__(self, *names: Any, section: str, **extra: Any) -> None:
        super().__init__(*names, **extra)
        self.section = section


def network_options(function: F) -> F:
    """The parameters of ``antiphon.noc`` that stay the same over all rates."""
    for section, name, default, meaning in reversed(NETWORK_OPTIONS):
        option = click.option(
            "--" + name.replace("_", "-"),
            cls=SectionedOption,
            section=section,
            default=default,
            show_default=default is not None,
            type=str if isinstance(default, str) or name == "routing" else int,
            help=meaning,
        )
        function = option(function)
    return function


NETWORK_OPTIONS: Sequence[tuple[str, str, str | int | None, str]] = (
    ("Traffic", "packet_flits", 1, "Flits of every packet."),
    ("Traffic", "seed", 1, "Seed of all random numbers."),
    ("Network", "routing", None, "xy, yx or minimal.  [default: xy on grids, else minimal]"),
    ("Network", "link_cycles", 1, "Cycles a link takes for one flit."),
    ("Network", "latency_cycles", 0, "Cycles a flit travels after that."),
    ("Routers", "vcs", 4, "Virtual channels of a link."),
    ("Routers", "vc_depth", 8, "Flits in the buffer of a virtual channel."),
    ("Routers", "switching", "wormhole", "wormhole or cut-through."),
    ("Routers", "allocator", "islip", "islip, round-robin or age."),
    ("Routers", "iterations", 1, "Iterations of each allocation."),
    ("Routers", "routing_cycles", 1, "Route computation."),
    ("Routers", "vc_allocation_cycles", 1, "Allocation of a virtual channel."),
    ("Routers", "switch_allocation_cycles", 1, "Allocation of the crossbar."),
    ("Routers", "traversal_cycles", 1, "Crossing the router."),
    ("Routers", "credit_cycles", 1, "From the arrival of a credit to its use."),
    ("Routers", "input_speedup", 1, "Crossbar inputs of an input port."),
    ("Routers", "output_speedup", 1, "Crossbar outputs of an output port."),
    ("Routers", "internal_speedup", 1, "Allocations in a cycle."),
    ("Routers", "output_queue_flits", None, "Flits that may wait for a link.  [default: any number]"),
    ("Measurement", "warm_up_cycles", None, "Cycles before measuring.  [default: until latencies settle]"),
    ("Measurement", "cycles", None, "Cycles measured.  [default: until the mean is known well]"),
)
"""Section, name, default and meaning of the parameters of ``antiphon.noc`` but traffic and rate."""


@main.command(cls=Sectioned)
@FABRIC
@click.option(
    "--traffic",
    cls=SectionedOption,
    section="Traffic",
    default="uniform",
    show_default=True,
    help=f"Who sends to whom: {', '.join(antiphon.traffic_patterns())}[:rank=N,share=X].",
    shell_complete=_complete(antiphon.traffic_patterns),
)
@click.option(
    "--rate",
    "rates",
    cls=SectionedOption,
    section="Traffic",
    multiple=True,
    metavar="X[,Y,...]",
    help="Flits offered per rank and cycle; several give a table. Repeatable.  [default: 0.1]",
)
@click.option(
    "--saturation",
    cls=SectionedOption,
    section="Traffic",
    is_flag=True,
    help="Find the largest stable rate instead, to 1 %.",
)
@network_options
@JSON
def noc(fabric: str, traffic: str, rates: tuple[str, ...], saturation: bool, as_json: bool, **parameters: Any) -> None:
    """Time the flit-level network alone, under synthetic traffic (docs/noc.md).

    Routers have virtual channels and credits; delays are in cycles.
    """
    if saturation and rates:
        raise click.UsageError("give either --rate or --saturation")
    network = antiphon.Fabric(fabric)
    with progress_bar() as progress:
        if saturation:
            found = antiphon.noc_saturation(network, traffic, progress=partial(progress, "saturation"), **parameters)
            runs = [found.stable]
        else:
            runs = [
                antiphon.noc(network, traffic, rate, progress=partial(progress, f"rate {rate:g}"), **parameters)
                for rate in _rates(rates or ("0.1",))
            ]
    if as_json:
        if saturation:
            print_json("noc", found.to_dict())
        elif len(runs) == 1:
            print_json("noc", runs[0].to_dict())
        else:
            document = {"fabric": network.name, "traffic": traffic, "runs": [run.to_dict() for run in runs]}
            print_json("noc", document)
        return
    print_noc(runs)
    if saturation:
        least = found.unstable_rate
        above = "every rate is stable" if least is None else f"unstable from {least:.4g} on"
        open_console().print(f"Largest stable rate: {found.stable.rate:.4g} flits per rank and cycle ({above})")


@main.command()
@JSON
def fabrics(as_json: bool) -> None:
    """List the kinds of fabrics, each with an example of a specification."""
    rows = [dict(zip(("kind", "example", "summary"), preset, strict=True)) for preset in antiphon.fabrics()]
    print_list("fabrics", rows, as_json)


@main.command()
@JSON
def algorithms(as_json: bool) -> None:
    """List the algorithms and their options."""
    known = antiphon.algorithms()
    if as_json:
        rows = [
            {
                "name": a.name,
                "summary": a.summary,
                "options": [{"key": key, "meaning": meaning} for key, meaning in a.options],
                "source": a.source,
                "collectives": a.collectives,
            }
            for a in known
        ]
        print_json("algorithms", {"algorithms": rows})
        return
    table = Table("Algorithm", "What it does", "Options", "Collectives", "Source", show_lines=True)
    for a in known:
        options = "\n".join(f"{key}: {meaning}" for key, meaning in a.options)
        table.add_row(Text(a.name, style="bold"), a.summary, options, ", ".join(a.collectives), a.source)
    open_console().print(table)


@main.command()
@JSON
def systems(as_json: bool) -> None:
    """List the system presets."""
    rows = []
    for name in antiphon.systems():
        system = antiphon.System(name)
        rows.append({"name": name, "summary": system.description, "parameters": json.loads(system.to_json())})
    if not as_json:
        rows = [{"name": row["name"], "summary": row["summary"]} for row in rows]
    print_list("systems", rows, as_json)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    For bash: antiphon completion bash > ~/.local/share/bash-completion/completions/antiphon
    """
    complete = get_completion_class(shell)
    assert complete is not None  # the choices above are the classes click has
    click.echo(complete(main, {}, "antiphon", "_ANTIPHON_COMPLETE").source())


def _rates(texts: Sequence[str]) -> list[float]:
    """The rates of ``--rate``."""
    rates = []
    for text in ",".join(texts).split(","):
        try:
            rates.append(float(text))
        except ValueError:
            message = f"rate '{text[:40]}' is not a number; write for example 0.3 or 0.1,0.2,0.3"
            raise AntiphonError(message, "bad-size") from None
    return rates


def _schedule_dict(fabric: antiphon.Fabric, schedule: antiphon.Schedule) -> dict[str, Any]:
    return {
        "fabric": fabric.name,
        "algorithm": schedule.algorithm,
        "collective": schedule.collective,
        "root": schedule.root,
        "bytes": schedule.bytes,
        "ranks": schedule.ranks,
        "excluded_ranks": schedule.excluded,
    }


def _read(path: str) -> str:
    file = Path(path)
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise AntiphonError(f"{path}: cannot be read: Is a directory", "bad-file")
        if not stat.S_ISREG(status.st_mode):  # a device or pipe may never end
            raise AntiphonError(f"{path}: is not a regular file", "bad-file")
        if status.st_size > LARGEST_SCHEDULE:
            raise AntiphonError(f"{path}: is larger than {antiphon.format_bytes(LARGEST_SCHEDULE)}", "too-large")
        return file.read_text("utf-8")
    except AntiphonError:
        raise
    except OSError as error:
        raise AntiphonError(f"{path}: cannot be read: {error.strerror or error}", "bad-file") from None
    except ValueError:
        raise AntiphonError(f"{path}: is not UTF-8 text", "bad-file") from None
