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
        "beside": Command(
            "beside", "Time a collective beside other traffic, such as that of memories, and the traffic beside it."
        ),
        "vary": Command(
            "beside", "Time a schedule on links whose rates and latencies are drawn, and say which links matter most."
        ),
        "verify": Command("collectives", "Prove that a schedule is correct, or print the first counter-example."),
        "bound": Command("collectives", "Print how fast any schedule could be."),
        "tune": Command(
            "tuning", "Find the best algorithm and chunk size for every buffer size, and where they change."
        ),
        "limits": Command(
            "limits", "Say what limits a collective at every size: rates, latency, endpoints or additions."
        ),
        "replan": Command(
            "replan", "Plan again after a failure, from a schedule for the intact fabric (docs/explanation/optimal.md)."
        ),
        "survive": Command("survive", "Say what throughput failures leave, what is critical, and which spares help."),
        "configure": Command(
            "configure",
            "Find the configuration of a fabric that makes an algorithm fastest (docs/how-to/configure.md).",
        ),
        "scale": Command("scale", "Time a collective on more ranks than a schedule can list."),
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
        "step": Command("llm", "Time a training step of a large model, and say where the time goes."),
        "plan": Command(
            "llm",
            "Find the fastest plan for a training step of a large model, why it wins, and what would change.",
        ),
        "infer": Command(
            "infer", "Time a prompt and the next tokens of a large model, and say which links that needs."
        ),
        "fit": Command("llm", "Fit constants of an accelerator on measured steps of large models."),
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
        "explore": Command(
            "explore",
            "Find the designs of a space that no other beats in time, energy and area (docs/how-to/explore.md).",
        ),
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
        "models": Command(
            "llm", "List the large models, what a plan may say, and constants; or the layers of one model."
        ),
        "completion": Command("lists", "Print the completion script of a shell."),
    },
}
