"""ARIES: Accelerating Distributed Training in Chiplet-based Systems via Flexible Interconnects (DATE 2024)."""

from antiphon.papers.aries.allreduce import beyond, crossover, fig9, flits, trees_small
from antiphon.papers.aries.designs import DATA
from antiphon.papers.aries.tables import area, eq1, table1, table2
from antiphon.papers.aries.training import energy, fig10, fig11
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (table1, eq1, table2, fig9, fig10, fig11, area, beyond, flits),
    {"crossover": crossover, "trees-small": trees_small, "energy": energy},
)
