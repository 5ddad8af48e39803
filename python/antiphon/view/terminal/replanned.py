"""A schedule after a failure, for people."""

from __future__ import annotations

from antiphon.collective.matrix import size_text
from antiphon.results import Replanned
from antiphon.view.terminal.console import open_console
from antiphon.view.text import certified, format_time


def print_replanned(found: Replanned, system: str) -> None:
    """What was kept, how good it is on a system, and how long each part of the work took."""
    console, schedule = open_console(), found.schedule
    least = f"no schedule takes less than {format_time(found.certified_ns)} on system {system}"
    size = size_text(schedule.bytes, schedule.matrix_bytes)
    lines = [
        f"✓ {schedule.algorithm}, {schedule.collective} of {size} on {found.fabric.name}: proven",
        f"✓ {certified(found.share_of_optimum)}: {least}",
    ]
    before = found.certified_before_ns
    if before is not None:
        lines.append(f"  Before the failure none took less than {format_time(before)}")
    if found.kept + found.mended:
        what = "plans of paths" if schedule.collective == "all-to-all" else "trees"
        all_before = f"{found.kept + found.mended} {what} before"
        lines.append(f"  Of the {all_before}, {found.kept} are whole, and others were found for {found.mended}")
    else:
        lines.append("  Planned anew: its trees before are nothing to start from")
    times = (("plan and prices", found.planning_ms), ("schedule", found.lowering_ms), ("proof", found.proof_ms))
    lines.append("  Took " + ", ".join(f"{format_time(took * 1e6)} for {part}" for part, took in times))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
