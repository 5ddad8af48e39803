from . import models
from ._core import (
    Fabric,
    ModelShape,
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
    plan_options,
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
    large_models,
    rails_queues,
    rails_schedulers,
    rails_topologies,
    systems,
    traffic_patterns,
    workloads,
)
from .collective.beside import beside
from .collective.choices import Tuning
from .collective.comparison import compare, run
from .collective.configuring import configure
from .collective.flights import Flight, FlightsRun, read_flights, simulate_flights
from .collective.formats import export, load, prove_file
from .collective.limited import Limits
from .collective.limits import limits
from .collective.replanning import replan
from .collective.result import Comparison, Refusal, Run
from .collective.scaling import at_scale
from .collective.schedules import build, lower_bound, simulate, verify
from .collective.specs import Algorithm
from .collective.surviving import survive
from .collective.tuning import tune
from .collective.varying import vary
from .convert import from_networkx, to_networkx
from .errors import AntiphonError, FileError, InputError, NotApplicable, NotProven, Stalled, TooLarge
from .execution.chain.measuring import measure_chain
from .execution.inprocess import execute
from .execution.measuring import measure
from .execution.result import ChainMeasurement, Emulated, Measurement
from .execution.testbed.emulation import emulate
from .expectation.expecting import expect
from .expectation.result import Expectation
from .exploration.exploring import explore
from .exploration.result import Exploration
from .llm.fit import fit
from .llm.given import constants
from .llm.inference import infer
from .llm.search import plan
from .llm.step import step
from .llm.table import predict_table
from .models.given import workload
from .network.area import area
from .network.cost import cost
from .network.engine import advise_ace
from .network.noc import noc
from .network.rails import RailsFlight, advise_rails, rails, rails_flights, rails_messages
from .network.saturation import Saturation, noc_saturation
from .plugins import register, register_fabric, register_scheduler
from .results import (
    Area,
    AtScale,
    BesideRun,
    BestPlans,
    Bound,
    Configured,
    ConstantsFit,
    EndpointUse,
    Energy,
    EngineAdvice,
    FabricCost,
    FileProof,
    Inference,
    Iteration,
    Latency,
    Limit,
    MessageTimes,
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
    Spread,
    Stats,
    StepRun,
    Survival,
    Table,
    TreesAdvice,
    Variations,
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
    "AtScale",
    "BesideRun",
    "BestPlans",
    "Bound",
    "Calibration",
    "ChainMeasurement",
    "Comparison",
    "Configured",
    "ConstantsFit",
    "Emulated",
    "EndpointUse",
    "Energy",
    "EngineAdvice",
    "Entry",
    "Expectation",
    "Exploration",
    "Fabric",
    "FabricCost",
    "FileError",
    "FileProof",
    "Flight",
    "FlightsRun",
    "Inference",
    "InputError",
    "Iteration",
    "Latency",
    "Limit",
    "Limits",
    "Machine",
    "Measurement",
    "MessageTimes",
    "ModelShape",
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
    "Spread",
    "Stalled",
    "Stats",
    "StepRun",
    "Study",
    "Survival",
    "System",
    "Table",
    "TooLarge",
    "Training",
    "TrainingPlan",
    "TreesAdvice",
    "Tuning",
    "Variations",
    "Workload",
    "__version__",
    "advise_ace",
    "advise_rails",
    "advise_trees",
    "algorithms",
    "area",
    "at_scale",
    "beside",
    "build",
    "bus_factor",
    "calibrate",
    "collectives",
    "compare",
    "compute_models",
    "configure",
    "constants",
    "cost",
    "emulate",
    "endpoints",
    "execute",
    "expect",
    "explore",
    "export",
    "fabrics",
    "fidelities",
    "fit",
    "format_bytes",
    "from_networkx",
    "infer",
    "iterations",
    "large_models",
    "limits",
    "load",
    "lower_bound",
    "measure",
    "measure_chain",
    "models",
    "noc",
    "noc_saturation",
    "parse_bytes",
    "picture",
    "plan",
    "plan_options",
    "predict_table",
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
    "step",
    "study",
    "survive",
    "systems",
    "to_networkx",
    "traffic_patterns",
    "train",
    "tune",
    "vary",
    "verify",
    "workload",
    "workloads",
]
