"""What commands there are, by section of the help: name, module of ``antiphon.cli`` that has it, what it does.

A module is imported when its command is called, so that the help of all comes at once.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    module: str
    summary: str


SECTIONS: dict[str, dict[str, Command]] = {
    "Collectives": {
        "compare": Command("collectives", "Compare algorithms: each proven, timed, and set against the lower bound."),
        "simulate": Command("collectives", "Prove and time one algorithm, or a schedule from a file."),
        "flights": Command("flights", "Time several collectives in flight on one fabric."),
        "verify": Command("collectives", "Prove that a schedule is correct, or print the first counter-example."),
        "bound": Command("collectives", "Print how fast any schedule could be."),
        "tune": Command(
            "tuning", "Find the best algorithm and chunk size for every buffer size, and where they change."
        ),
        "replan": Command(
            "replan", "Plan again after a failure, from a schedule for the intact fabric (docs/explanation/optimal.md)."
        ),
        "configure": Command(
            "configure",
            "Find the configuration of a fabric that makes an algorithm fastest (docs/how-to/configure.md).",
        ),
        "export": Command(
            "formats", "Write a schedule, or a fabric, in the format of another tool (docs/reference/formats.md)."
        ),
        "show": Command("collectives", "Print the figures of a schedule that need no simulation."),
    },
    "On real data": {
        "run": Command(
            "run",
            "Run a collective on real data by MPI, threads or GPUs, check it, and time it (docs/how-to/run.md).",
        ),
        "testbed": Command(
            "testbed", "Run collectives on an emulated fabric, measured beside predicted (docs/how-to/run.md)."
        ),
        "discover": Command(
            "discover", "Look at how hosts are cabled: rates, what is odd, what they reach (docs/how-to/torch.md)."
        ),
    },
    "Networks and training": {
        "train": Command("training", "Time an iteration and an epoch of training."),
        "replay": Command(
            "replay", "Time traces of all ranks, Chakra's or PyTorch's, on a fabric (docs/reference/formats.md)."
        ),
        "rails": Command(
            "rails", "Schedule a collective's chunks over the dimensions of a network (docs/explanation/rails.md)."
        ),
        "noc": Command("noc", "Time the flit-level network alone, under synthetic traffic (docs/explanation/noc.md)."),
        "expect": Command(
            "expect",
            "Say whether a measured number is good, size by size, and what may be wrong (docs/how-to/expect.md).",
        ),
        "area": Command("area", "Print the area of routers and collectives engines (docs/explanation/energy.md)."),
        "advise": Command("advise", "Say what a network is good for before anything is scheduled."),
        "calibrate": Command(
            "calibrate",
            "Measure this machine: what computation and communication do to each other (docs/how-to/calibrate.md).",
        ),
    },
    "Many runs": {
        "study": Command("study", "Run every combination of some values, once, whatever happens in between."),
        "reproduce": Command("papers", "Reproduce a paper: published numbers, ours, and a verdict for each."),
    },
    "Lists": {
        "fabrics": Command("lists", "List the kinds of fabrics, each with an example of a specification."),
        "algorithms": Command("lists", "List the algorithms and their options, or those of one."),
        "systems": Command("lists", "List the system presets, or the parameters of one, which --set replaces."),
        "endpoints": Command(
            "lists", "List what can stand between a rank's memory and its links, or the options of one."
        ),
        "workloads": Command("training", "List the models that are known by name, and the compute models."),
        "completion": Command("lists", "Print the completion script of a shell."),
    },
}
