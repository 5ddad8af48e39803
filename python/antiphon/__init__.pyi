from . import models
from ._core import (
    Fabric,
    Schedule,
    ScheduleBuilder,
    System,
    TrainingPlan,
    Workload,
    __version__,
    advise_trees,
    bus_factor,
    format_bytes,
    iterations,
    parse_bytes,
    router_parameters,
    shard,
)
from .calibration.calibrate import calibrate
from .calibration.device import Machine
from .calibration.result import Calibration
from .catalogue import (
    Entry,
    algorithms,
    collectives,
    compute_models,
    endpoints,
    fabrics,
    fidelities,
    rails_queues,
    rails_schedulers,
    rails_topologies,
    systems,
    traffic_patterns,
    workloads,
)
from .collective.choices import Tuning
from .collective.comparison import compare, run
from .collective.configuring import configure
from .collective.flights import Flight, FlightsRun, read_flights, simulate_flights
from .collective.formats import export, load, prove_file
from .collective.replanning import replan
from .collective.result import Comparison, Refusal, Run
from .collective.schedules import build, lower_bound, simulate, verify
from .collective.specs import Algorithm
from .collective.tuning import tune
from .convert import from_networkx, to_networkx
from .errors import AntiphonError, FileError, InputError, NotApplicable, NotProven, Stalled, TooLarge
from .execution.chain.measuring import measure_chain
from .execution.inprocess import execute
from .execution.measuring import measure
from .execution.result import ChainMeasurement, Emulated, Measurement
from .execution.testbed.emulation import emulate
from .expectation.expecting import expect
from .expectation.result import Expectation
from .models.given import workload
from .network.area import area
from .network.engine import advise_ace
from .network.noc import noc
from .network.rails import RailsFlight, advise_rails, rails, rails_flights, rails_messages
from .network.saturation import Saturation, noc_saturation
from .plugins import register, register_fabric, register_scheduler
from .results import (
    Area,
    Bound,
    Configured,
    EndpointUse,
    Energy,
    EngineAdvice,
    FileProof,
    Iteration,
    Latency,
    Limit,
    NocResult,
    Parameter,
    Proof,
    RailsAdvice,
    RailsFlights,
    RailsRun,
    Replanned,
    Result,
    Router,
    SimulationResult,
    Stats,
    Table,
    TreesAdvice,
)
from .studies.study import Study, study
from .training.replay import Replay, replay
from .training.result import Training
from .training.train import train
from .view.drawing.picture import Picture, picture

__all__ = [
    "Algorithm",
    "AntiphonError",
    "Area",
    "Bound",
    "Calibration",
    "ChainMeasurement",
    "Comparison",
    "Configured",
    "Emulated",
    "EndpointUse",
    "Energy",
    "EngineAdvice",
    "Entry",
    "Expectation",
    "Fabric",
    "FileError",
    "FileProof",
    "Flight",
    "FlightsRun",
    "InputError",
    "Iteration",
    "Latency",
    "Limit",
    "Machine",
    "Measurement",
    "NocResult",
    "NotApplicable",
    "NotProven",
    "Parameter",
    "Picture",
    "Proof",
    "RailsAdvice",
    "RailsFlight",
    "RailsFlights",
    "RailsRun",
    "Refusal",
    "Replanned",
    "Replay",
    "Result",
    "Router",
    "Run",
    "Saturation",
    "Schedule",
    "ScheduleBuilder",
    "SimulationResult",
    "Stalled",
    "Stats",
    "Study",
    "System",
    "Table",
    "TooLarge",
    "Training",
    "TrainingPlan",
    "TreesAdvice",
    "Tuning",
    "Workload",
    "__version__",
    "advise_ace",
    "advise_rails",
    "advise_trees",
    "algorithms",
    "area",
    "build",
    "bus_factor",
    "calibrate",
    "collectives",
    "compare",
    "compute_models",
    "configure",
    "emulate",
    "endpoints",
    "execute",
    "expect",
    "export",
    "fabrics",
    "fidelities",
    "format_bytes",
    "from_networkx",
    "iterations",
    "load",
    "lower_bound",
    "measure",
    "measure_chain",
    "models",
    "noc",
    "noc_saturation",
    "parse_bytes",
    "picture",
    "prove_file",
    "rails",
    "rails_flights",
    "rails_messages",
    "rails_queues",
    "rails_schedulers",
    "rails_topologies",
    "read_flights",
    "register",
    "register_fabric",
    "register_scheduler",
    "replan",
    "replay",
    "router_parameters",
    "run",
    "shard",
    "simulate",
    "simulate_flights",
    "study",
    "systems",
    "to_networkx",
    "traffic_patterns",
    "train",
    "tune",
    "verify",
    "workload",
    "workloads",
]
