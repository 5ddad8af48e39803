"""Antiphon: collective communication on accelerator fabrics, proven, bounded and timed.

>>> import antiphon
>>> fabric = antiphon.Fabric("mesh:4x4")
>>> schedule = antiphon.build(fabric, "ring", bytes="1MiB")
>>> antiphon.verify(fabric, schedule).complete
True
>>> result = antiphon.simulate(fabric, schedule, system="tto")
>>> bound = antiphon.lower_bound(fabric, bytes="1MiB", system="tto")
>>> bound.time_ns <= result.time_ns
True
"""

from antiphon import models
from antiphon._core import (
    Fabric,
    Schedule,
    ScheduleBuilder,
    System,
    TrainingPlan,
    Workload,
    __version__,
    advise_rails,
    advise_trees,
    algorithms,
    build,
    bus_factor,
    collectives,
    compute_models,
    fabrics,
    fidelities,
    format_bytes,
    iterations,
    lower_bound,
    noc,
    parse_bytes,
    rails,
    rails_messages,
    rails_queues,
    rails_schedulers,
    rails_topologies,
    router_parameters,
    shard,
    simulate,
    systems,
    traffic_patterns,
    verify,
    workloads,
)
from antiphon.collective.comparison import Comparison, Refusal, Run, compare, run
from antiphon.collective.flights import Flight, FlightsRun, read_flights, simulate_flights
from antiphon.collective.tuning import Tuning, tune
from antiphon.errors import AntiphonError, FileError, InputError, NotApplicable, NotProven, Stalled, TooLarge
from antiphon.network.saturation import Saturation, noc_saturation
from antiphon.results import (
    Algorithm,
    Bound,
    Iteration,
    Latency,
    NocResult,
    Parameter,
    Proof,
    RailsAdvice,
    RailsRun,
    Router,
    SimulationResult,
    Stats,
    TreesAdvice,
)
from antiphon.training.result import Training
from antiphon.training.train import train, workload

__all__ = [
    "Algorithm",
    "AntiphonError",
    "Bound",
    "Comparison",
    "Fabric",
    "FileError",
    "Flight",
    "FlightsRun",
    "InputError",
    "Iteration",
    "Latency",
    "NocResult",
    "NotApplicable",
    "NotProven",
    "Parameter",
    "Proof",
    "RailsAdvice",
    "RailsRun",
    "Refusal",
    "Router",
    "Run",
    "Saturation",
    "Schedule",
    "ScheduleBuilder",
    "SimulationResult",
    "Stalled",
    "Stats",
    "System",
    "TooLarge",
    "Training",
    "TrainingPlan",
    "TreesAdvice",
    "Tuning",
    "Workload",
    "__version__",
    "advise_rails",
    "advise_trees",
    "algorithms",
    "build",
    "bus_factor",
    "collectives",
    "compare",
    "compute_models",
    "fabrics",
    "fidelities",
    "format_bytes",
    "iterations",
    "lower_bound",
    "models",
    "noc",
    "noc_saturation",
    "parse_bytes",
    "rails",
    "rails_messages",
    "rails_queues",
    "rails_schedulers",
    "rails_topologies",
    "read_flights",
    "router_parameters",
    "run",
    "shard",
    "simulate",
    "simulate_flights",
    "systems",
    "traffic_patterns",
    "train",
    "tune",
    "verify",
    "workload",
    "workloads",
]
