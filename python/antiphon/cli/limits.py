"""The command that says what limits a collective at every size."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.collectives import refuse_problem
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, each_group
from antiphon.cli.pages import paged
from antiphon.collective.schedules import read_schedule
from antiphon.collective.specs import split_specs
from antiphon.collective.tuning import size_range
from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError
from antiphon.view.documents.limits import limits_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar


@command(
    of=antiphon.limits,
    common="sizes algorithms schedule collective system fidelity report opened jobs output",
)
def limits(
    fabric: str,
    *,
    collective: str = "all-reduce",
    sizes: str | None = None,
    system: antiphon.System,
    algorithms: tuple[str, ...],
    schedule: str | None = None,
    all_ranks: bool,
    fidelity: str = "packet",
    part: Part,
    report: str | None,
    jobs: int | None,
    time_limit_s: float | None,
    output: str,
) -> None:
    """Say what limits a collective at every size: rates, latency, endpoints or additions.

    The best algorithm at each size is simulated again with each of these twice as good; what saves most time is the
    limit. The report draws the lower bounds, the time and its limit over sizes: the roofline of a collective.

    Examples:
        antiphon limits mesh:4x4 --sizes 1KiB..1GiB --algorithms ring,dbtree --report roofline.html
        antiphon limits dgx-h100:2 --sizes 1MiB --system h100-nccl --format json
        antiphon limits mesh:4x4 --schedule tto.json

    Args:
        sizes: Full buffer sizes: A,B or A..B, doubling. [default: 1KiB to 1GiB, each four times the one before]
        schedule: A file of a schedule: what limits this one.
        time_limit_s: Sizes that are not done by then are left out, and the exit status is 3: 90, 90s, 5min or 2h.
    """
    if schedule is not None:
        refuse_problem(schedule)
    specs = split_specs(algorithms) if algorithms else None
    part.one_file("--report", report)
    with paged(report, output) as write:

        def work(network: antiphon.Fabric) -> Outcome:
            with progress_bar() as progress:
                found = antiphon.limits(
                    network,
                    collective,
                    None if sizes is None else size_range(sizes),
                    specs,
                    system,
                    fidelity,
                    schedule=None if schedule is None else read_schedule(schedule, network),
                    all_ranks=all_ranks,
                    jobs=jobs,
                    progress=progress,
                    time_limit_s=time_limit_s,
                )
            write(partial(page_of, found))
            failure = None
            if found.left_out:
                late = ", ".join(map(antiphon.format_bytes, found.left_out))
                failure = AntiphonError(f"the time limit left out {late}", OVER_TIME)
            document = found.to_dict() | {"group": network.members}
            return Outcome(document, partial(limits_document, found), failure)

        each_group("limits", fabric, part, output, work, "sizes")
