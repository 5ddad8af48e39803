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
    reading="Every AllReduce is built as a schedule, proven, and simulated packet by packet with the parameters of the"
    " paper's Table II; nothing is fitted. “Published” are the numbers in the result files of the paper's artifact"
    " where it has them, else those the paper states. A number agrees if it is within the tolerance of its row;"
    " tolerances are set for an algorithm as a whole, never for a point. “In flits” are runs in the network of routers,"
    " buffers and virtual channels, for small data only. One cycle of the artifact is 1 ns.",
    judging="Each claim against our own numbers, with what the artifact's files give beside them. A number, or both"
    " ends of a range, holds within 5 %; “always” holds in part if it fails at no more than a quarter of the points."
    " DBTree is taken as the artifact runs it, RingBiOdd as the paper describes it.",
)
