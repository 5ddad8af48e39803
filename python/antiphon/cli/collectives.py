"""Commands for one collective: compare, simulate, verify, bound, show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, Problem, each_group
from antiphon.cli.options import is_right
from antiphon.cli.output import note, tell, writing
from antiphon.cli.pages import paged
from antiphon.collective.comparison import bounded
from antiphon.collective.matrix import size_text
from antiphon.collective.schedules import is_foreign, read_schedule
from antiphon.collective.specs import split_specs
from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError
from antiphon.results import Proof, Stats, rows_of
from antiphon.results.table import known_rows
from antiphon.view.document import Document, Note
from antiphon.view.documents.collective import (
    best_document,
    bound_document,
    comparison_document,
    run_document,
    schedule_document,
)
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar
from antiphon.view.text import certified, format_time


@command(common="size collective algorithms system fidelity energy report opened picture schedules jobs output")
def compare(
    fabrics: tuple[str, ...],
    *,
    problem: Problem,
    algorithms: tuple[str, ...],
    schedules: tuple[str, ...],
    fidelity: str = "packet",
    energy: bool,
    all_: bool = False,
    library: str | None = None,
    report: str | None,
    picture: str | None,
    jobs: int | None,
    time_limit_s: float | None,
    output: str,
) -> None:
    """Compare algorithms: each proven, timed, and set against the lower bound.

    An algorithm is NAME[:KEY=VALUE,...], for example tto:chunk=96KiB. Several fabrics are compared one after the
    other, and then the best on each.

    Examples:
        antiphon compare mesh:4x4 --bytes 1MiB --system tto
        antiphon compare mesh:4x4,drop=5-6 --bytes 1MiB --algorithms ring,combs --fidelity alpha-beta,packet
        antiphon compare mesh:4x4 --schedule tto.json --algorithms ring,combs --format markdown
        antiphon compare ring:8 --bytes 1MiB --report ring.html --picture ring.svg
        antiphon compare dgx-a100:2 --collective all-to-all --matrix examples/experts.csv
        antiphon compare dgx-h100:1 --library nccl --algorithms ring,direct
        antiphon compare mesh:4x4 torus:4x4 fbfly:4x4 --bytes 1MiB --algorithms ring,optimal

    Args:
        fidelity: alpha-beta, packet or flit, or several with commas, side by side.
        all_: Also time what an estimate puts far behind the best.
        library: nccl or rccl: also what its model says, on a preset of GPU boxes (docs/explanation/library.md).
        picture: Also draw the fabric, its links coloured by how busy the first algorithm keeps them.
        time_limit_s: Of each comparison; what is not done by then is left out, and the exit status is 3: 90, 90s,
            5min or 2h.
    """
    specs = split_specs(algorithms) if algorithms else None
    if schedules:
        refuse_problem(*schedules)
    for option, file in (("--report", report), ("--picture", picture)):
        problem.part.one_file(option, file)
        if file is not None and len(fabrics) > 1:
            raise click.UsageError(f"{option} is for one fabric")
    with paged(report, output) as write, drawing(picture) as draw:

        def work(network: antiphon.Fabric) -> Outcome:
            own = schedules_of(schedules, network, problem.size)
            what = own[0] if own else problem
            with progress_bar() as progress:
                comparison = antiphon.compare(
                    network,
                    what.collective,
                    what.bytes if isinstance(what, antiphon.Schedule) and what.matrix is None else problem.size,
                    specs,
                    problem.system,
                    fidelity,
                    root=what.root or 0,
                    matrix=what.matrix,
                    schedules=dict(zip(schedules, own, strict=True)),
                    jobs=jobs,
                    progress=progress,
                    energy=energy,
                    time_limit_s=time_limit_s,
                    estimates=not all_,
                    library=library,
                    playback=report is not None,
                )
            failure: AntiphonError | None = None
            late = [each.algorithm for each in comparison.refused if each.code == OVER_TIME]
            if late:
                failure = AntiphonError(f"the time limit left out {', '.join(late)}", OVER_TIME)
            elif not comparison.runs:
                message = f"no algorithm could do {comparison.collective} on {comparison.fabric}"
                failure = AntiphonError(message, "not-applicable")
            if comparison.runs or any(each.code == "not-proven" for each in comparison.refused):
                write(partial(_comparison_page, network, comparison, own))
            if comparison.runs:
                draw(network, comparison.best)
            return Outcome(comparison.to_dict(), partial(comparison_document, comparison), failure)

        each_group("compare", fabrics, problem.part, output, work, "runs", best_document)
    note(output, picture and f"Picture: {picture}")


def _comparison_page(
    network: antiphon.Fabric, comparison: antiphon.Comparison, own: Sequence[antiphon.Schedule]
) -> str:
    """The page of a comparison, with the counter-examples of schedules that were given."""
    from antiphon.view.pages import comparison as pages
    from antiphon.view.pages.schedule import render_wrong, wrong_sections

    wrong = []
    for schedule in own if any(each.code == "not-proven" for each in comparison.refused) else ():
        try:
            antiphon.verify(network, schedule)
        except AntiphonError as error:
            wrong.append((schedule, error.message))
    if wrong and not comparison.runs:
        return render_wrong(network, *wrong[0])
    return pages.render(network, comparison, "".join(wrong_sections(network, *each) for each in wrong))


def schedules_of(paths: Sequence[str], network: antiphon.Fabric, size: str | None) -> list[antiphon.Schedule]:
    """Schedules of files. Those of other tools are of any size: that of the others, else the one that is asked for."""
    ours = {path: read_schedule(path, network) for path in paths if not is_foreign(path)}
    given = next((each.bytes for each in ours.values()), size)
    return [ours.get(path) or read_schedule(path, network, given) for path in paths]


@contextmanager
def drawing(path: str | None) -> Iterator[Callable[[antiphon.Fabric, antiphon.Schedule | antiphon.Run | None], None]]:
    """What draws into a file, as ``writing`` writes; without a path nothing is drawn."""
    if path is not None:
        from antiphon.view.drawing.picture import refuse_pixels

        refuse_pixels(path)
    with writing(path, ".svg") as write:
        yield lambda network, what: write(lambda: antiphon.picture(network, what).svg)


@command(common="size collective system fidelity energy schedule group report opened trace picture output")
def simulate(
    fabric: str,
    algorithm: str | None = None,
    *,
    schedule: str | None,
    problem: Problem,
    placement: str | None = None,
    fidelity: str = "packet",
    energy: bool,
    report: str | None,
    trace: str | None,
    picture: str | None,
    jobs: int | None,
    output: str,
) -> None:
    """Prove and time one algorithm, or a schedule from a file.

    Examples:
        antiphon simulate torus:4x4 multitree --bytes 375kB --system tto --set link_rate=50GB/s
        antiphon simulate mesh:4x4 tto:chunk=32KiB --bytes 1MiB --system examples/system.toml --json
        antiphon simulate mesh:4x4 --schedule tto.json --fidelity flit
        antiphon simulate mesh:4x4 --schedule multitree.xml --bytes 1MiB
        antiphon simulate mesh:8x8 tto --bytes 1MiB --trace tto.json --report tto.html

    Args:
        placement: Of another tool's file: where its ranks 0, 1, ... are on the fabric, such as 3,2,1,0.
            [default: 0,1,...]
        picture: Also draw the fabric, its links coloured by how busy they were.
        jobs: Cores that a long run in packets uses.  [default: all there are]
    """
    one_of(algorithm, schedule)
    problem.part.one_file("--trace", trace)
    problem.part.one_file("--report", report)
    problem.part.one_file("--picture", picture)
    ranks = None if placement is None else _ranks(placement)
    if ranks is not None and schedule is None:
        raise click.UsageError("--placement is for a file of another tool: give --schedule FILE")

    with paged(report, output) as write, drawing(picture) as draw:

        def work(network: antiphon.Fabric) -> Outcome:
            if schedule is not None:
                plan = read_schedule(schedule, network, problem.size, ranks)
            else:
                plan = problem.build(network, algorithm or "")
            with progress_bar() as progress:
                heartbeat = partial(progress, plan.algorithm)
                timing: dict[str, Any] = {
                    "energy": energy,
                    "trace": trace,
                    "jobs": jobs,
                    "playback": report is not None,
                }
                with drawing_errors(network, plan, write):
                    run = antiphon.run(network, plan, problem.system, fidelity, progress=heartbeat, **timing)
            write(partial(page_of, run, network))
            draw(network, run)
            tables = {name: known_rows(getattr(run.result, name)) for name in ("links", "ranks", "timeline")}
            if run.energy is not None:
                tables |= {"power": rows_of(run.energy.power), "link_energy": rows_of(run.energy.links)}
            return Outcome(run.to_dict() | {"tables": tables}, partial(run_document, run, network))

        each_group("simulate", fabric, problem.part, output, work)
    note(output, trace and f"Trace: {trace}")
    note(output, picture and f"Picture: {picture}")


@contextmanager
def drawing_errors(
    network: antiphon.Fabric, schedule: antiphon.Schedule, write: Callable[[Callable[[], str]], None]
) -> Iterator[None]:
    """Draws a counter-example on the page, and raises it again."""
    try:
        yield
    except AntiphonError as error:
        if error.code == "not-proven":
            from antiphon.view.pages.schedule import render_wrong

            write(partial(render_wrong, network, schedule, error.message))
        raise


def _ranks(text: str) -> list[int]:
    """A list of ranks in order."""
    try:
        return [int(rank) for rank in text.split(",")]
    except ValueError:
        raise AntiphonError(f"--placement takes ranks with commas, not '{text[:40]}'", "bad-spec") from None


def one_of(algorithm: str | None, path: str | None) -> None:
    """Refuses an algorithm and a file together, or neither; with a file, options that say what it says."""
    if (algorithm is None) == (path is None):
        raise click.UsageError("give either an ALGORITHM or --schedule FILE")
    if path is not None:
        refuse_problem(path)


def problem_given() -> dict[str, str]:
    """Options that say what is to be done, and are given, by the names of their arguments."""
    context = click.get_current_context()
    options = {"collective": "--collective", "root": "--root", "size": "--bytes", "matrix": "--matrix"}
    default = click.core.ParameterSource.DEFAULT
    return {k: o for k, o in options.items() if context.get_parameter_source(k) not in (None, default)}


def refuse_problem(*paths: str) -> None:
    """Refuses options that say what files say; of a size only schedules of our own do."""
    for name, option in problem_given().items():
        # Of what cannot be read, whoever reads it says why.
        if name != "size" or not all(not is_right(is_foreign, path) or is_foreign(path) for path in paths):
            raise click.UsageError(f"{option} is what the schedule says: leave it out with --schedule")


@command(common="size collective system schedule fabric_ group report opened output")
def verify(
    fabric: str,
    algorithm: str | None = None,
    *,
    schedule: str | None,
    problem: Problem,
    fabric_: str | None = None,
    report: str | None,
    output: str,
) -> None:
    """Prove that a schedule is correct, or print the first counter-example.

    With a FILE instead of FABRIC the schedule in it is proven, in JSON or in a format of another tool, which is known
    by content (docs/reference/formats.md).

    Examples:
        antiphon verify dgx1v multitree --collective all-gather
        antiphon verify mesh:4x4 --schedule tto.json --report tto.html
        antiphon verify multitree.xml --fabric mesh:4x4

    Args:
        fabric_: With a FILE: the fabric.  [default: its own; of another tool's file all ranks joined]
    """
    if algorithm is None and schedule is None and _is_file(fabric):
        schedule, fabric = fabric, fabric_ or ""
    elif algorithm is None and schedule is None and not is_right(antiphon.Fabric, fabric):
        other = "is a folder" if Path(fabric).is_dir() else "is no regular file"
        what = other if Path(fabric).exists() else "there is no such file"
        raise click.UsageError(f"{fabric[:100]}: {what}; give a FILE, or FABRIC with ALGORITHM or --schedule FILE")
    elif fabric_ is not None:
        raise click.UsageError("--fabric is for verify FILE")
    one_of(algorithm, schedule)
    problem.part.one_file("--report", report)
    if schedule is not None and is_foreign(schedule):
        if report is not None:
            raise click.UsageError(
                "--report is not for files of other tools here; simulate --schedule FILE --report has a page"
            )
        from antiphon.cli.formats import verified_file

        path, size = schedule, problem.size
        if not fabric and problem.part == Part():
            outcome = verified_file(path, None, size)
            tell("verify", outcome.document, output, outcome.show)
            if outcome.failure is not None:
                raise outcome.failure
            return
        each_group("verify", fabric, problem.part, output, lambda network: verified_file(path, network, size))
        return
    if schedule is not None and not fabric:
        fabric = read_schedule(schedule, None).fabric

    def work(network: antiphon.Fabric) -> Outcome:
        plan = problem.build(network, algorithm or "") if schedule is None else read_schedule(schedule, network)
        return _verified(network, plan, problem.system, write)

    with paged(report, output) as write:
        each_group("verify", fabric, problem.part, output, work)


def _is_file(text: str) -> bool:
    """Whether an argument is a file, or looks as if it should be one; specifications of fabrics do not."""
    return Path(text).is_file() or (
        Path(text).suffix.lower() in {".json", ".xml", ".csv"} and not text.startswith("file:")
    )


def _verified(
    network: antiphon.Fabric,
    schedule: antiphon.Schedule,
    system: antiphon.System,
    write: Callable[[Callable[[], str]], None],
) -> Outcome:
    document = _schedule_dict(network, schedule)
    try:
        with drawing_errors(network, schedule, write):
            proof = _proven(network, schedule, system)
    except AntiphonError as error:
        if error.code != "not-proven":
            raise
        return Outcome(document | {"verified": False, "counter_example": error.message}, Document, error)
    document |= {"verified": proof.complete, "counter_example": None, "known_gaps": proof.gaps}
    names = ("conflict_free", "lanes", "transfers", "share_of_optimum", "certified_ns")
    document |= {name: getattr(proof, name) for name in names}
    conflicts = ", and no two messages of a step share a link" if proof.conflict_free else ""
    size = size_text(schedule.bytes, schedule.matrix_bytes)
    ranks = f"without rank {', '.join(map(str, schedule.excluded))}, every other" if schedule.excluded else "every"
    text = (
        f"✓ {schedule.algorithm}, {schedule.collective} of {size} on {network.name}:"
        f" proven; {ranks} rank ends with the right bytes{conflicts}"
        f" ({proof.lanes:,} lanes, {proof.transfers:,} transfers)"
    )
    share, least = proof.share_of_optimum, proof.certified_ns
    if share is not None and least is not None:
        text += f"\n✓ {certified(share)}: no schedule takes less than {format_time(least)} on system {system.name}"
    shown = Document([Note(text, wrap=True)])
    write(partial(_schedule_page, network, schedule, proof, shown))
    return Outcome(document, lambda: shown)


def _schedule_page(network: antiphon.Fabric, schedule: antiphon.Schedule, proof: Proof, document: Document) -> str:
    from antiphon.view.pages.schedule import render

    return render(network, schedule, proof, document)


@command(common="size collective system fidelity group groups report opened output")
def bound(fabric: str, *, problem: Problem, fidelity: str = "packet", report: str | None, output: str) -> None:
    """Print how fast any schedule could be.

    Examples:
        antiphon bound torus:4x4x4 --bytes 1GiB --report bound.html
        antiphon bound mesh:8x8 --groups rows --collective all-to-all --bytes 1MiB --format csv

    Args:
        fidelity: How packets go on.
    """

    def work(network: antiphon.Fabric) -> Outcome:
        given: dict[str, Any] = {"root": problem.root, "matrix": problem.matrix, "fidelity": fidelity}
        lower, document = bounded(network, problem.collective, problem.size, problem.system, **given)
        size_of = size_text(document["bytes"], document["matrix_bytes"])
        title = f"{document['collective']} of {size_of} on {network.name}, system {problem.system.name}, {fidelity}"
        write(partial(_bound_page, network, lower, title))
        return Outcome(document, partial(bound_document, title, lower))

    problem.part.one_file("--report", report)
    with paged(report, output) as write:
        each_group("bound", fabric, problem.part, output, work)


def _bound_page(network: antiphon.Fabric, lower: antiphon.Bound, title: str) -> str:
    from antiphon.view.pages.bound import render

    return render(network, lower, title)


@command(common="size collective system group report opened out picture output", former=("--schedule-json", "out"))
def show(
    fabric: str,
    algorithm: str | None = None,
    *,
    problem: Problem,
    report: str | None,
    out: str | None = None,
    picture: str | None,
    output: str,
) -> None:
    """Print the figures of a schedule that need no simulation.

    Examples:
        antiphon show mesh:4x4 tto --bytes 1MiB --report tto.html
        antiphon show mesh:4x4 tto --bytes 1MiB --out tto.json
        antiphon show mesh:4x4 tto --bytes 1MiB --picture tto.svg
        antiphon show dgx-h100:4 --picture boxes.svg

    Args:
        out: Also write the schedule, OUT.json.
        picture: Also draw its trees and rings; without ALGORITHM the fabric alone.
    """
    problem.part.one_file("--out", out)
    problem.part.one_file("--report", report)
    problem.part.one_file("--picture", picture)
    if algorithm is None and ((picture is None and report is None) or out is not None):
        raise click.UsageError("give an ALGORITHM, or --picture OUT.svg or --report OUT.html to draw the fabric alone")
    with writing(out, ".json") as write, paged(report, output) as write_page, drawing(picture) as draw:

        def work(network: antiphon.Fabric) -> Outcome:
            if algorithm is None:
                draw(network, None)
                write_page(partial(_fabric_page, network))
                return Outcome(_fabric_dict(network), lambda: Document([Note(repr(network).strip("<>"))]))
            schedule = problem.build(network, algorithm)
            proof = _proven(network, schedule, problem.system)
            stats = schedule.stats(network)
            write(schedule.to_json)
            draw(network, schedule)
            document = _figures(network, problem.system, schedule, proof, stats)
            links = {"from": network.links["from"], "to": network.links["to"], "bytes": stats.links["bytes"]}
            tables = {"lane_heights": rows_of(stats.lanes), "links": rows_of(links)}
            if network.configuration is not None:
                tables["ports"] = rows_of(network.ports)
            shown = partial(schedule_document, network, schedule, document)
            write_page(lambda: _schedule_page(network, schedule, proof, shown()))
            return Outcome(document | tables, shown)

        each_group("show", fabric, problem.part, output, work)
    note(output, picture and f"Picture: {picture}")


def _fabric_page(network: antiphon.Fabric) -> str:
    from antiphon.view.pages.schedule import render_fabric

    return render_fabric(network)


def _fabric_dict(fabric: antiphon.Fabric) -> dict[str, Any]:
    nodes, links = len(fabric.nodes["rank"]), len(fabric.links["from"])
    return {
        "fabric": fabric.name,
        "group": fabric.members,
        "ranks": fabric.ranks,
        "node_count": nodes,
        "link_count": links,
    }


def _figures(
    network: antiphon.Fabric, system: antiphon.System, schedule: antiphon.Schedule, proof: Proof, stats: Stats
) -> dict[str, Any]:
    link_bytes = stats.links["bytes"]
    return _schedule_dict(network, schedule) | {
        "verified": proof.complete,
        "known_gaps": proof.gaps,
        "lanes": proof.lanes,
        **{name: getattr(stats, name) for name in ("transfers", "messages", "steps")},
        "phases": [{"name": name, "steps": steps} for name, steps in stats.phases],
        "used_links_percent": stats.used_links_percent,
        "reduce_height_max": int(stats.lanes["reduce_height"].max(initial=0)),
        "copy_height_max": int(stats.lanes["copy_height"].max(initial=0)),
        "link_bytes_max": int(link_bytes.max(initial=0)),
        "link_bytes_mean": float(link_bytes.mean()),
        "links_idle": int((link_bytes == 0).sum()),
        "dimensions": _dimensions(network, system),
    }


def _dimensions(fabric: antiphon.Fabric, system: antiphon.System) -> list[dict[str, Any]]:
    """The dimensions of a product, with the system's rate and latency where its links have none."""
    rows = rows_of(fabric.dimensions)
    for row in rows:
        hops = 2 if row["shape"] == "switch" else 1
        if math.isnan(row["rate_gb_per_s"]):
            row["rate_gb_per_s"] = system.link_rate_gb_per_s
        if math.isnan(row["latency_ns"]):
            row["latency_ns"] = hops * system.link_latency_ns
    return rows


def _proven(fabric: antiphon.Fabric, schedule: antiphon.Schedule, system: antiphon.System) -> Proof:
    with progress_bar() as progress:
        return antiphon.verify(fabric, schedule, partial(progress, f"{schedule.algorithm} (proving)"), system)


def _schedule_dict(fabric: antiphon.Fabric, schedule: antiphon.Schedule) -> dict[str, Any]:
    names = ("algorithm", "collective", "root", "bytes", "matrix_bytes", "ranks")
    given = {name: getattr(schedule, name) for name in names}
    return {"fabric": fabric.name, "group": fabric.members, **given, "excluded_ranks": schedule.excluded}
