"""The pages that follow from the code: command line, names in Python, parameters, lists of what is known.

Each is Markdown. ``pages`` has all of them by their place in docs/.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence

import click

import antiphon
from antiphon import Entry, Parameter
from antiphon._core import inputs as core_inputs
from antiphon.cli import main
from antiphon.cli.commands import SECTIONS
from antiphon.cli.documented import ALL, Documented, Section

COMMANDS = "reference/commands/"
API = "reference/api/"
LISTS = "reference/lists/"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(
        "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in line) + " |\n" for line in lines
    )


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Text in which Markdown sees no HTML and no links, and one mark for code."""
    parts = text.replace("``", "`").split("`")
    return "`".join(
        part if index % 2 else part.replace("<", "&lt;").replace("[", "\\[") for index, part in enumerate(parts)
    )


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, or its first paragraph where that is one."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return plain(re.split(r"(?<=[^.]\w\.|[^.]\)\.) (?=[A-Z`])", paragraph)[0])


def intro(title: str, text: str) -> str:
    return f"# {title}\n\n{text}\n\n"


# The command line


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a command, in the sections of its help."""
    sections: dict[str, list[list[str]]] = {"Options": []}
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if isinstance(option, click.Option) and record:
            name = "Options"
            if isinstance(option, Section) and not option.common:
                name = option.section if option.section != "Options" else "More options"
            sections.setdefault(name, []).append([code(record[0]), plain(record[1])])
    for title, rows in sections.items():
        yield f"**{title}**\n\n" + table(("Option", "Meaning"), rows)


def command_text(name: str, command: click.Command, level: int) -> str:
    """What a command does and takes."""
    context = click.Context(command, info_name=name)
    context.meta[ALL] = True
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"{'#' * level} {name}", plain(command.help or ""), f"```text\n{usage}\n```"]
    if isinstance(command, click.Group):
        lines += [command_text(f"{name} {each}", command.commands[each], level + 1) for each in command.commands]
        return "\n\n".join(lines)
    lines += options(command, context)
    if isinstance(command, Documented) and command.examples:
        lines.append("**Examples**\n\n```console\n" + "".join(f"$ {each}\n" for each in command.examples) + "```")
    return "\n\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, str]]:
    """A page for each command, and one that lists them."""
    text = intro("Commands", "For everybody at a terminal: what each command does. Its page has all options.")
    context = click.Context(main, info_name="antiphon")
    for title, section in SECTIONS.items():
        rows = []
        for name, known in section.items():
            command = main.get_command(context, name)
            assert command is not None
            yield f"{COMMANDS}{name}.md", command_text(f"antiphon {name}", command, 1)
            rows.append([f"[`{name}`]({name}.md)", plain(known.summary)])
        text += f"## {title}\n\n{table(('Command', 'What it does'), rows)}\n"
    shared = [record for each in main.get_params(context) if (record := each.get_help_record(context))]
    text += "## Options of all commands\n\n"
    text += table(("Option", "Meaning"), ([code(option), plain(meaning)] for option, meaning in shared))
    yield f"{COMMANDS}index.md", text


# Names in Python

KINDS = (
    ("functions", "Functions", "what `antiphon` can be asked to do", inspect.isroutine),
    ("errors", "Errors", "what is raised", lambda thing: inspect.isclass(thing) and issubclass(thing, Exception)),
    (
        "results",
        "Results",
        "what functions return, field by field",
        lambda thing: inspect.isclass(thing) and issubclass(thing, antiphon.Result),
    ),
    ("given", "Fabrics, schedules and records", "what functions are given, and parts of results", inspect.isclass),
)
"""Page, title, what is on it, and which names."""
MODULES = {
    "models": ("Models of other frameworks", "antiphon.models", ("from_onnx", "from_torch", "Layer", "LayerTable")),
    "torch": ("PyTorch", "antiphon.torch", ("chain", "register", "NAME")),
}
"""Page: title, module, its names."""


def api() -> Iterator[tuple[str, str]]:
    """The public names: a page for each kind, and one that lists all."""
    left = [name for name in antiphon.__all__ if callable(getattr(antiphon, name))]
    text = intro(
        "Names in Python",
        "For everybody who writes Python: all that `import antiphon` offers. A fabric, system or schedule may be an "
        "object, or what it is made of: a specification, a preset, or the path of a file.",
    )
    for page, title, what, belongs in KINDS:
        names = sorted((name for name in left if belongs(getattr(antiphon, name))), key=str.lower)
        left = [name for name in left if name not in names]
        rows = [
            [f"[`{name}`]({page}.md#antiphon.{name})", first_sentence(getattr(antiphon, name).__doc__)]
            for name in names
        ]
        text += f"## {title}\n\n{table(('Name', 'What it is'), rows)}\n"
        yield f"{API}{page}.md", intro(title, f"For everybody who writes Python: {what}.") + blocks("antiphon", names)
    assert not left, left
    rows = []
    for page, (title, module, offered) in MODULES.items():
        yield f"{API}{page}.md", intro(title, f"For everybody who writes Python: `{module}`.") + blocks(module, offered)
        rows.append([f"[`{module}`]({page}.md)", ", ".join(map(code, offered))])
    yield f"{API}index.md", text + f"## Modules\n\n{table(('Module', 'Names'), rows)}"


def blocks(module: str, names: Iterable[str]) -> str:
    """What mkdocstrings replaces by the documentation of names."""
    return "\n".join(f"::: {module}.{name}\n" for name in names)


# Parameters


def row(parameter: Parameter, json: str) -> list[str]:
    """The row of a parameter with its place in JSON."""
    values = ", ".join(map(code, parameter.choices)) if parameter.kind == "choice" else parameter.values
    return [code(parameter.key), values, code(parameter.default), parameter.meaning, code(json), parameter.source]


PARAMETERS = """# Parameters

For everybody who changes a system, an algorithm or a command: each parameter with its values and default.

A system is changed by `--set`, by `System.with_`, or in a file of your own:

```console
$ antiphon systems tto
$ antiphon simulate mesh:4x4 ring --bytes 1MiB --system tto --set link_rate_gb_per_s=50 --set hand_off_ns=0
```

A value out of range is refused, and so is an unknown key; the message says what is expected and names the nearest key.

## Systems

Defaults are those of the system `generic`; [Systems](lists/systems.md) says what the others replace.
A dot in the column JSON means an object in another one. Times in JSON end in `_ps` and are whole picoseconds.
Rates are bytes per second, shares thousandths (`_ppm`: millionths), power is in nanowatts (`_nw`).
Energies are attojoules (`_aj`, `_aj_per_byte`: a pJ a bit is 8,000,000 of them).
Null stands for what is unknown, unlimited or free. A key that is left out has the value of `generic`.

"""


def parameters() -> str:
    """Every parameter of systems, compute models, algorithms and commands."""
    header = ["Values", "Default", "Meaning"]
    text = PARAMETERS
    text += table(
        ["Parameter", *header, "JSON", "From"], (row(each, each.json) for each in antiphon.System().parameters())
    )
    text += "\n## Compute models\n\nOptions of `--compute` and of the parameter `processor`.\n\n"
    models = [
        [code(model.name), *row(each, f"processor.{model.name}.{each.json}")]
        for model in antiphon.compute_models()
        for each in model.options
    ]
    text += table(["Model", "Option", *header, "JSON", "From"], models)
    text += "\n## Algorithms\n\nOptions stand behind the name: `tto:chunk=64KiB`.\n\n"
    known = antiphon.algorithms()
    shared = set.intersection(*({option.key for option in algorithm.options} for algorithm in known))
    pairs = [(code(each.name), option) for each in known for option in each.options if option.key not in shared]
    pairs += [("all", option) for option in known[0].options if option.key in shared]
    text += table(["Algorithm", "Option", *header], ([name, *described(option)] for name, option in pairs))
    text += "\n## Commands\n\nOptions that `train`, `noc` and `rails` share with Python and with studies.\n"
    text += "A key is `--KEY` on the command line, with `-` for `_`; an argument in Python; a key of a study.\n\n"
    rows = []
    for command in ("train", "noc", "routers", "rails"):
        name = code("noc" if command == "routers" else command)
        rows += [[name, *described(each, optional)] for each, optional, _ in core_inputs(command)]
    return text + table(["Command", "Key", *header], rows)


def described(option: Parameter, optional: bool = False) -> list[str]:
    """Key, values, default and meaning; a default that is said in words is no code."""
    key, values, default, meaning, *_ = row(option, "")
    return [key, values, option.default if optional or " " in option.default else default, meaning]


# Lists


def lists() -> Iterator[tuple[str, str]]:
    """What is known by name."""
    rows = [
        [code(each.name), plain(each.summary), ", ".join(each.collectives), each.source]
        for each in antiphon.algorithms()
    ]
    yield (
        "algorithms",
        intro(
            "Algorithms",
            "For everybody who compares algorithms: what each does, for which collectives, and where it is from.",
        )
        + "A schedule is made by one of them. [Options](../parameters.md#algorithms) stand behind its name.\n\n"
        + table(("Algorithm", "What it does", "Collectives", "From"), rows),
    )
    rows = [[code(each.name), code(each.example), plain(each.summary)] for each in antiphon.fabrics()]
    yield (
        "fabrics",
        intro("Kinds of fabrics", "For everybody who describes a machine: the kinds of fabrics that have names.")
        + "[Fabrics](../fabric.md) says what may stand behind a specification, and how to describe one of your own.\n\n"
        + table(("Kind", "Example", "What it is"), rows),
    )
    usual = {each.key: each.default for each in antiphon.System().parameters()}
    rows = []
    for name in antiphon.systems():
        system = antiphon.System(name)
        replaced = [each for each in system.parameters() if each.default != usual[each.key]]
        rows.append(
            [code(name), plain(system.description), ", ".join(code(f"{each.key}={each.default}") for each in replaced)]
        )
    yield (
        "systems",
        intro("Systems", "For everybody who times a schedule: the platforms that have names, as values of `--system`.")
        + "Each replaces some defaults of [the parameters of systems](../parameters.md#systems).\n\n"
        + table(("System", "What it models", "What it replaces"), rows),
    )
    yield (
        "workloads",
        intro(
            "Models by name",
            "For everybody who times training: the models that have names, as arguments of `antiphon train`.",
        )
        + "[Workloads](../workloads.md) says where each is from, and how to give one of your own.\n\n"
        + table(("Model", "What it is"), ([code(each.name), plain(each.summary)] for each in antiphon.workloads())),
    )
    models = ([code(each.name), plain(each.summary), each.source] for each in antiphon.large_models())
    options = ([code(each.key), each.values, code(each.default), each.meaning] for each in antiphon.plan_options())
    yield (
        "large-models",
        intro(
            "Large models",
            "For everybody who times training steps: the models that `antiphon step` knows, and what a plan may say.",
        )
        + "[Models, plans and constants](../large-models.md) says how to give your own, and which plans are legal.\n\n"
        + table(("Model", "What it is", "From"), models)
        + "\n## Plans\n\nKeys of `--plan`, as in `tp=8,pp=4`.\n\n"
        + table(("Key", "Values", "Default", "Meaning"), options),
    )
    text = intro(
        "Other names",
        "For everybody who looks for a value: collectives, fidelities, endpoints, and names of rails and `noc`.",
    )
    for title, entries in OTHERS.items():
        text += f"## {title}\n\n" + entries_table(entries()) + "\n"
    yield "others", text


OTHERS = {
    "Collectives": antiphon.collectives,
    "Fidelities": antiphon.fidelities,
    "Endpoints": antiphon.endpoints,
    "Compute models": antiphon.compute_models,
    "Rails topologies": antiphon.rails_topologies,
    "Rails schedulers": antiphon.rails_schedulers,
    "Rails queues": antiphon.rails_queues,
    "Traffic patterns": antiphon.traffic_patterns,
}


def entries_table(entries: Sequence[Entry]) -> str:
    return table(("Name", "What it is"), ([code(each.name), plain(each.summary)] for each in entries))


def pages() -> dict[str, str]:
    """Every generated page of the reference by its place in docs/."""
    made = {**dict(commands()), **dict(api()), "reference/parameters.md": parameters()}
    return made | {f"{LISTS}{name}.md": text for name, text in lists()}
