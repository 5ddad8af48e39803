"""What there is to choose from, as records that are names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from antiphon._core import ModelShape, System
from antiphon._core import algorithms as core_algorithms
from antiphon._core import collectives as core_collectives
from antiphon._core import compute_models as core_compute_models
from antiphon._core import endpoints as core_endpoints
from antiphon._core import fabrics as core_fabrics
from antiphon._core import fidelities as core_fidelities
from antiphon._core import large_models as core_large_models
from antiphon._core import rails_queues as core_rails_queues
from antiphon._core import rails_schedulers as core_rails_schedulers
from antiphon._core import rails_topologies as core_rails_topologies
from antiphon._core import systems as core_systems
from antiphon._core import traffic_patterns as core_traffic_patterns
from antiphon._core import workloads as core_workloads
from antiphon.plugins import registered
from antiphon.results import Parameter

COLLECTIVES = {
    "all-reduce": "every rank ends with the sum of the buffers of all",
    "reduce-scatter": "every rank ends with its shard of the sum",
    "all-gather": "every rank ends with the shards of all",
    "broadcast": "every rank ends with the buffer of the root",
    "reduce": "the root ends with the sum",
    "all-to-all": "every rank ends with a part from each other",
}
FIDELITIES = {
    "alpha-beta": "a latency and a rate for each message; messages wait for each other on links",
    "packet": "every packet on every link, with network interfaces and hand-off",
    "flit": "every flit, with the routers' buffers, credits and allocators",
}
SCHEDULERS = {
    "baseline": "dimensions first to last, AllGather back",
    "themis": "each chunk starts on the dimensions with the least load so far",
    "search": "the fastest orders found from these two and from the best split of bytes",
    "phased": "an AllReduce in each dimension, inside of the halves of one in the fastest",
}
QUEUES = {
    "fifo": "the first that came",
    "scf": "the smallest, as large as it is before or after the stage; of equals the newest",
    "scf-before": "the smallest as it is before the stage; of equals the newest",
    "tail": "the smallest, those in their last stage only when no other waits; of equals the oldest",
    "oldest": "the one that was submitted first, wherever it is",
}
PATTERNS = {
    "uniform": "every rank alike, the source included",
    "transpose": "(y, x) for (x, y); square grids",
    "tornado": "almost half way around each dimension",
    "neighbor": "the next in each dimension",
    "bit-complement": "every bit of the number inverted; a power of two of ranks",
    "bit-reverse": "the bits in reverse; a power of two of ranks",
    "shuffle": "the bits one place on; a power of two of ranks",
    "hotspot": "one rank with some probability, else uniform",
}
THEMIS = "Themis (ISCA 2022)"


class Entry(str):
    """Something to choose, which is its name, so that it goes wherever the name goes.

    >>> tto = next(each for each in algorithms() if each == "tto")
    >>> tto.name, [option.key for option in tto.options]
    ('tto', ['chunk', 'excluded', 'barrier', 'third', 'align'])

    Attributes:
        summary: what it is, in one line.
        source: paper or origin; empty where there is none.
        options: what may be given behind the name, ``name:key=value,...``; of systems, what ``System.with_`` takes.
        example: a specification, where the name alone is none.
        collectives: of algorithms, what they do.
    """

    summary: str
    source: str
    options: tuple[Parameter, ...]
    example: str
    collectives: tuple[str, ...]

    def __new__(
        cls,
        name: str,
        summary: str,
        source: str = "",
        options: Iterable[Parameter] = (),
        example: str = "",
        collectives: Iterable[str] = (),
    ) -> Entry:
        made = super().__new__(cls, name)
        vars(made).update(
            summary=summary,
            source=source,
            options=tuple(options),
            example=example or name,
            collectives=tuple(collectives),
        )
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Entry, (self.name, self.summary, self.source, self.options, self.example, self.collectives)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an entry cannot be changed: {name}")

    @property
    def name(self) -> str:
        """The name, as plain text."""
        return str.__str__(self)


def algorithms() -> list[Entry]:
    """All algorithms, in the order of the documentation.

    >>> [each for each in algorithms() if "broadcast" in each.collectives]
    ['multitree', 'optimal', 'in-network', 'direct']
    """
    return [
        Entry(each.name, each.summary, each.source, each.options, collectives=each.collectives)
        for each in core_algorithms()
    ]


def fabrics() -> list[Entry]:
    """All kinds of fabrics; ``example`` is a specification.

    >>> next(each.example for each in fabrics() if each == "torus")
    'torus:4x4x4'
    """
    return [Entry(kind, summary, example=example) for kind, example, summary in core_fabrics()]


def systems() -> list[Entry]:
    """The presets of systems; ``options`` are the parameters with the preset's values.

    >>> systems()[:6]
    ['generic', 'ideal', 'dgx1', 'tto', 'aries', 'testbed']
    """
    presets = [System(name) for name in core_systems()]
    return [Entry(each.name, each.description, options=each.parameters()) for each in presets]


def collectives() -> list[Entry]:
    """What a schedule can do.

    >>> collectives()[0].summary
    'every rank ends with the sum of the buffers of all'
    """
    return _entries(core_collectives(), COLLECTIVES)


def fidelities() -> list[Entry]:
    """In how much detail a schedule can be timed, cheapest first.

    >>> fidelities()
    ['alpha-beta', 'packet', 'flit']
    """
    return _entries(core_fidelities(), FIDELITIES)


def workloads() -> list[Entry]:
    """The models that are known by name.

    >>> "resnet50" in workloads()
    True
    """
    return [Entry(*each) for each in core_workloads()]


def large_models() -> list[Entry]:
    """The large models that are known by name, for ``step``; ``ModelShape`` has their numbers.

    >>> "llama3-405b" in large_models()
    True
    """
    return [Entry(name, _about(ModelShape(name)), source) for name, source in core_large_models()]


def _about(model: ModelShape) -> str:
    """A model in a line."""
    active = f", {model.active_parameters / 1e9:,.1f} of them for a token" if model.has_experts else ""
    return (
        f"{model.parameters / 1e9:,.1f} billion parameters{active}; {model.layers} layers of width {model.hidden:,},"
        f" sequences of {model.sequence:,}"
    )


def compute_models() -> list[Entry]:
    """How long a rank works on a layer.

    >>> compute_models()
    ['systolic', 'roofline', 'measured']
    """
    return [Entry(name, summary, options=options) for name, summary, options in core_compute_models()]


def endpoints() -> list[Entry]:
    """What can stand between a rank's memory and its links; of presets ``example`` is what they stand for.

    docs/explanation/endpoints.md says what each models.

    >>> endpoints()[:4], endpoints()[-1].example
    (['system', 'ideal', 'npu', 'ace'], 'npu:memory_gb_per_s=128,sms=2')
    """
    return [
        Entry(name, summary, options=options, example=example) for name, summary, options, example in core_endpoints()
    ]


def traffic_patterns() -> list[Entry]:
    """Who sends to whom in ``noc``.

    >>> traffic_patterns()[2].summary
    'almost half way around each dimension'
    """
    return _entries(core_traffic_patterns(), PATTERNS, "BookSim 2 (ISPASS 2013)")


def rails_topologies() -> list[Entry]:
    """The multi-dimensional networks that are known by name; ``example`` has the dimensions.

    >>> rails_topologies()[0].example
    'sw16@1200/700ns,sw64@800/1700ns'
    """
    return [Entry(name, dimensions, THEMIS, example=dimensions) for name, dimensions in core_rails_topologies()]


def rails_schedulers() -> list[Entry]:
    """In which order chunks use the dimensions of ``rails``.

    >>> rails_schedulers()
    ['baseline', 'themis', 'search', 'phased']
    """
    own = {name: plugin.summary for (kind, name), plugin in registered.items() if kind == "scheduler"}
    return _entries(core_rails_schedulers(), SCHEDULERS | own)


def rails_queues() -> list[Entry]:
    """Which waiting chunk a dimension of ``rails`` takes next.

    >>> rails_queues()[0].summary
    'the first that came'
    """
    return _entries(core_rails_queues(), QUEUES)


def _entries(names: Iterable[str], summaries: Mapping[str, str], source: str = "") -> list[Entry]:
    return [Entry(name, summaries[name], source) for name in names]
