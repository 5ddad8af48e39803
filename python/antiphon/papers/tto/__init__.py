"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""

from antiphon.papers.tto.allreduce import CHECKS, FIG_8, FIG_9, FIG_12, FIG_14, TABLE_1
from antiphon.papers.tto.meshes import DATA
from antiphon.papers.tto.training import EXAMPLE, FIG_10, FIG_11, FIG_13, ONE_LESS, computing_models
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (TABLE_1, FIG_8, FIG_9, FIG_10, FIG_11, FIG_12, FIG_13, EXAMPLE, ONE_LESS, FIG_14),
    CHECKS | {"computing-models": computing_models},
)
