"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""

from antiphon.papers.tto import figures
from antiphon.papers.tto.figures import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (figures,))
