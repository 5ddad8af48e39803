"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""

from antiphon.papers.model import Paper
from antiphon.papers.tto_algorithms import VARIANTS
from antiphon.papers.tto_allreduce import FIG_8, FIG_9, FIG_12, FIG_14, TABLE_1
from antiphon.papers.tto_claims import claims
from antiphon.papers.tto_training import EXAMPLE, FIG_10, FIG_11, FIG_13, MODEL_STYLES, ONE_LESS

PAPER = Paper(
    name="tto",
    title="Enhancing Collective Communication in MCM Accelerators for Deep Learning Training",
    source="HPCA 2024; artifact: github.com/sabuj7177/TTO_HPCA_2024",
    experiments=(TABLE_1, FIG_8, FIG_9, FIG_10, FIG_11, FIG_12, FIG_13, EXAMPLE, ONE_LESS, FIG_14),
    styles={variant.name: variant.style for variant in VARIANTS} | MODEL_STYLES,
    claims=claims,
)
