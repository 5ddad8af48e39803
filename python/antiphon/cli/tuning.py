"""The command that finds the best algorithm and chunk size for every buffer size."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, each_group
from antiphon.cli.output import note, writing
from antiphon.collective.specs import split_specs
from antiphon.collective.tuning import size_range
from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError
from antiphon.view.documents.collective import tuning_document
from antiphon.view.terminal.console import json_text, progress_bar


@command(
    of=antiphon.tune, common="sizes algorithms collective objective system energy out jobs output", without="estimates"
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
    out: str | None = None,
    jobs: int | None,
    time_limit_s: float | None,
    output: str,
) -> None:
    """Find the best algorithm and chunk size for every buffer size, and where they change.

    Examples:
        antiphon tune mesh:4x4 --sizes 64KiB..1MiB --out selection.json
        antiphon tune ring:4 --sizes 1KiB,1MiB --algorithms ring,direct --format csv
        antiphon tune mesh:4x4 --sizes 64KiB..1MiB --objective energy --set static_router_mw=100

    Args:
        sizes: Full buffer sizes: A,B or A..B, doubling.
        out: Also write the selection table, OUT.json.
        time_limit_s: Sizes that are not done by then are left out, and the exit status is 3: 90, 90s, 5min or 2h.
    """
    specs = split_specs(algorithms) if algorithms else None
    part.one_file("--out", out)
    if out is not None and out.lower().endswith(".csv"):
        raise AntiphonError(
            f"{out}: no table for NCCL's tuner is written until its protocols are modelled (LL, LL128 and simple): "
            "which of its algorithms is faster depends on them; write a selection table, .json",
            "not-applicable",
        )
    with writing(out, ".json") as write:

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
            failure = None
            if tuning.left_out:
                late = ", ".join(map(antiphon.format_bytes, tuning.left_out))
                failure = AntiphonError(f"the time limit left out {late}", OVER_TIME)
            return Outcome(document, partial(tuning_document, tuning), failure)

        each_group("tune", fabric, part, output, work, "choices")
    note(output, out and f"Selection table: {out}")
