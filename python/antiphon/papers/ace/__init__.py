"""ACE: Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms (ISCA 2021)."""

from antiphon.papers.ace import allreduce, tables, training
from antiphon.papers.ace.runs import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, tables, training))
