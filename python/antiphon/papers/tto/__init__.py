"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""

from antiphon.papers.tto import allreduce, training
from antiphon.papers.tto.allreduce import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, training))
