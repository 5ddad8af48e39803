"""Names that arguments take, for editors and type checkers; other text is refused when it is used."""

from __future__ import annotations

from typing import Literal

Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all"]
"""What a schedule does: ``collectives()``."""
Fidelity = Literal["alpha-beta", "packet", "flit"]
"""In how much detail it is timed, cheapest first: ``fidelities()``."""
Overlap = Literal["none", "layerwise", "ccube", "both"]
"""What of an exchange of gradients runs behind computation: ``train``."""
InFlight = Literal["serial", "shared"]
"""Whether exchanges of an iteration share the links: ``train``."""
Order = Literal["fifo", "lifo", "priority"]
"""Who goes first on a link: ``simulate_flights``, ``train``."""
Contention = Literal["dynamic", "static"]
"""When computation lacks what communication takes: ``train``."""
Scheduler = Literal["baseline", "themis", "search", "phased"]
"""In which order chunks use dimensions: ``rails_schedulers()``."""
Queue = Literal["fifo", "scf", "scf-before", "tail", "oldest"]
"""Which waiting chunk a dimension takes next: ``rails_queues()``."""
Routing = Literal["xy", "yx", "minimal"]
"""How packets go through a flit-level network: ``noc``."""
Objective = Literal["time", "energy", "edp"]
"""What is to be least: ``tune``."""
CalibratedDevice = Literal["cpu", "cuda"]
"""What is measured: ``calibrate``."""
