"""Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (C-Cube, HPCA 2023)."""

from antiphon.papers.ccube import allreduce, layers, nodes, training, trees
from antiphon.papers.ccube.systems import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (
        allreduce.FIG_3,
        allreduce.FIG_4,
        trees.FIG_5,
        trees.FIG_7,
        layers.FIG_8,
        trees.FIG_10,
        allreduce.FIG_12,
        training.FIG_13,
        nodes.FIG_14,
        trees.FIG_15,
        layers.FIG_16,
        layers.FIG_17,
    ),
    trees.CHECKS | allreduce.CHECKS | nodes.CHECKS | training.CHECKS | layers.CHECKS,
)
