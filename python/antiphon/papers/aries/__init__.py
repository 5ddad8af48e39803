"""ARIES: Accelerating Distributed Training in Chiplet-based Systems via Flexible Interconnects (DATE 2024)."""

from antiphon.papers.aries.allreduce import beyond, crossover, fig9, flits, wires
from antiphon.papers.aries.designs import DATA
from antiphon.papers.aries.tables import area, eq1, routes, table1, table2
from antiphon.papers.aries.training import energy, fig10, fig11, most_saved, up_to
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (table1, eq1, table2, fig9, fig10, fig11, routes, area, wires, beyond, flits),
    {"crossover": crossover, "up-to": up_to, "energy": energy, "most-saved": most_saved},
)
