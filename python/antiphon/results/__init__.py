"""What the core returns: frozen, picklable results and records. The core looks its classes up here."""

from antiphon.results.base import Result
from antiphon.results.collective import Bound, Limit, Proof, SimulationResult, Stats
from antiphon.results.configured import Configured
from antiphon.results.endpoint import EndpointUse
from antiphon.results.energy import Area, Energy
from antiphon.results.formats import FileProof
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
from antiphon.results.table import Column, Table, rows_of
from antiphon.results.training import Iteration

__all__ = [
    "Algorithm",
    "Area",
    "Bound",
    "Column",
    "Configured",
    "EndpointUse",
    "Energy",
    "EngineAdvice",
    "FileProof",
    "Iteration",
    "Latency",
    "Limit",
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
    "Stats",
    "Table",
    "TreesAdvice",
    "rows_of",
]
