"""What the core returns: frozen, picklable results and records. The core looks its classes up here."""

from antiphon.results.base import Result
from antiphon.results.collective import Bound, Limit, Proof, SimulationResult, Stats
from antiphon.results.configured import Configured
from antiphon.results.endpoint import EndpointUse
from antiphon.results.energy import Area, Energy, FabricCost
from antiphon.results.formats import FileProof
from antiphon.results.inference import Inference
from antiphon.results.llm import BestPlans, ConstantsFit, StepRun
from antiphon.results.network import (
    EngineAdvice,
    Latency,
    NocResult,
    RailsAdvice,
    RailsFlights,
    RailsRun,
    Router,
    TreesAdvice,
)
from antiphon.results.playback import Playback
from antiphon.results.records import Algorithm, Parameter
from antiphon.results.replanned import Replanned
from antiphon.results.scaled import AtScale
from antiphon.results.survival import Survival
from antiphon.results.table import Column, Table, rows_of
from antiphon.results.training import Iteration
from antiphon.results.varied import BesideRun, MessageTimes, Spread, Variations

__all__ = [
    "Algorithm",
    "Area",
    "AtScale",
    "BesideRun",
    "BestPlans",
    "Bound",
    "Column",
    "Configured",
    "ConstantsFit",
    "EndpointUse",
    "Energy",
    "EngineAdvice",
    "FabricCost",
    "FileProof",
    "Inference",
    "Iteration",
    "Latency",
    "Limit",
    "MessageTimes",
    "NocResult",
    "Parameter",
    "Playback",
    "Proof",
    "RailsAdvice",
    "RailsFlights",
    "RailsRun",
    "Replanned",
    "Result",
    "Router",
    "SimulationResult",
    "Spread",
    "Stats",
    "StepRun",
    "Survival",
    "Table",
    "TreesAdvice",
    "Variations",
    "rows_of",
]
