"""The command that finds the best algorithm and chunk size for every buffer size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, each_group
from antiphon.cli.output import note, writing
from antiphon.cli.pages import paged
from antiphon.collective.specs import split_specs
from antiphon.collective.tuning import size_range
from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError
from antiphon.given import as_collective
from antiphon.library.cluster import Cluster
from antiphon.library.tuner import tuner_csv, tuner_rows
from antiphon.view.documents.collective import tuner_document, tuning_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import json_text, progress_bar


@command(
    of=antiphon.tune,
    common="sizes algorithms collective objective system energy report opened out jobs output",
    without="estimates",
)
def tune(
    fabric: str,
    *,
    collective: str = "all-reduce",
    sizes: str = "64KiB..1GiB",
    system: antiphon.System,
    algorithms: tuple[str, ...],
    all_ranks: bool,
    objective: str,
    energy: bool,
    fidelity: str = "packet",
    part: Part,
    report: str | None,
    out: str | None = None,
    jobs: int | None,
    time_limit_s: float | None,
    output: str,
) -> None:
    """Find the best algorithm and chunk size for every buffer size, and where they change.

    Examples:
        antiphon tune mesh:4x4 --sizes 64KiB..1MiB --out selection.json --report sizes.html
        antiphon tune ring:4 --sizes 1KiB,1MiB --algorithms ring,direct --format csv
        antiphon tune mesh:4x4 --sizes 64KiB..1MiB --objective energy --set static_router_mw=100
        antiphon tune dgx-h100:1 --sizes 1KiB..8GiB --out nccl_tuner.csv

    Args:
        sizes: Full buffer sizes: A,B or A..B, doubling.
        out: Also write the selection table, OUT.json; or, of NCCL's own algorithms, rows for its tuner plugin, OUT.csv.
        time_limit_s: Sizes that are not done by then are left out, and the exit status is 3: 90, 90s, 5min or 2h.
    """
    specs = split_specs(algorithms) if algorithms else None
    part.one_file("--out", out)
    part.one_file("--report", report)
    if out is not None and out.lower().endswith(".csv"):
        if report is not None:
            raise click.UsageError("--report and --open are about simulations: leave them out with --out FILE.csv")
        return _tuner(fabric, part, collective, sorted(set(size_range(sizes))), specs, out, output)
    with writing(out, ".json") as write, paged(report, output) as write_page:

        def work(network: antiphon.Fabric) -> Outcome:
            with progress_bar() as progress:
                tuning = antiphon.tune(
                    network,
                    collective,
                    size_range(sizes),
                    specs,
                    system,
                    fidelity,
                    all_ranks=all_ranks,
                    objective=objective,
                    energy=energy,
                    jobs=jobs,
                    progress=progress,
                    time_limit_s=time_limit_s,
                )
            document = tuning.to_dict() | {"group": network.members}
            write(lambda: json_text("tune", document) + "\n")
            write_page(partial(page_of, tuning))
            failure = None
            if tuning.left_out:
                late = ", ".join(map(antiphon.format_bytes, tuning.left_out))
                failure = AntiphonError(f"the time limit left out {late}", OVER_TIME)
            return Outcome(document, partial(tuning_document, tuning), failure)

        each_group("tune", fabric, part, output, work, "choices")
    note(output, out and f"Selection table: {out}")


TUNER_OPTIONS = ("fabric", "collective", "sizes", "algorithms", "out", "output", "json", "format", "group", "groups")
"""What rows for a tuner plugin follow from; all else is about simulations."""


def _tuner(
    fabric: str,
    part: Part,
    collective: str,
    sizes: Sequence[int],
    algorithms: Sequence[str] | None,
    out: str,
    output: str,
) -> None:
    """Writes rows for NCCL's tuner plugin, by its model: nothing is simulated."""
    context = click.get_current_context()
    for key in context.params:
        if key not in TUNER_OPTIONS and context.get_parameter_source(key) == click.core.ParameterSource.COMMANDLINE:
            option = "--" + key.replace("_", "-")
            where = "leave it out with --out FILE.csv (docs/explanation/library.md)"
            raise click.UsageError(f"{option} is about simulations: {where}")
    collective = as_collective(collective)
    with writing(out, ".csv") as write:

        def work(network: antiphon.Fabric) -> Outcome:
            cluster = Cluster.of(network)
            rows = tuner_rows(cluster, collective, sizes, algorithms)
            document = {
                "fabric": network.name,
                "group": network.members,
                "collective": collective,
                "library": "nccl",
                "rows": [row.to_dict() for row in rows],
            }
            write(lambda: tuner_csv(cluster, collective, rows))
            return Outcome(document, partial(tuner_document, f"{collective} by NCCL on {network.name}", rows))

        each_group("tune", fabric, part, output, work, "rows")
    note(output, f"Rows for NCCL's tuner plugin: {out}")
