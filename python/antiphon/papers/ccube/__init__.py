"""Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (C-Cube, HPCA 2023)."""

from antiphon.papers.ccube import allreduce, training, trees
from antiphon.papers.ccube.systems import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, training, trees))
