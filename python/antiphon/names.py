"""Names that arguments take, for editors and type checkers; other text is refused when it is used."""

from __future__ import annotations

from typing import Literal

Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all"]
"""What a schedule does: ``collectives()``."""
Fidelity = Literal["alpha-beta", "packet", "flit"]
"""In how much detail it is timed, cheapest first: ``fidelities()``."""
InFlight = Literal["serial", "shared"]
"""Whether exchanges of an iteration share the links: ``train``."""
Order = Literal["fifo", "lifo", "priority", "fair"]
"""Who goes first on a link: ``simulate_flights``, ``train``."""
Scheduler = Literal["baseline", "themis", "search", "phased"]
"""In which order chunks use dimensions: ``rails_schedulers()``."""
Objective = Literal["time", "energy", "edp"]
"""What is to be least: ``tune``."""
Library = Literal["nccl", "rccl"]
"""Whose model is put beside schedules: ``compare``."""
FailedNodes = Literal["dead", "forward"]
"""What failed nodes do: ``survive``."""
CalibratedDevice = Literal["cpu", "cuda"]
"""What is measured: ``calibrate``."""
