"""ARIES: Accelerating Distributed Training in Chiplet-based Systems via Flexible Interconnects (DATE 2024)."""

from antiphon.papers.aries import allreduce, tables, training
from antiphon.papers.aries.designs import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, tables, training))
