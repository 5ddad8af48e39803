"""Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (C-Cube, HPCA 2023)."""

from antiphon.papers.ccube_allreduce import (
    FIG3_STYLES,
    FIG12_STYLES,
    FIG_3,
    FIG_4,
    FIG_12,
    FIG_14,
    FORMULA_STYLES,
    SIZE_STYLES,
)
from antiphon.papers.ccube_claims import claims
from antiphon.papers.ccube_systems import STYLES
from antiphon.papers.ccube_training import FIG_8, FIG_13, FIG_16, FIG_17, LAYER_STYLES, RESNET_STYLES
from antiphon.papers.ccube_trees import CHUNK_STYLES, FIG_5, FIG_7, FIG_10, FIG_15, TREE_STYLES
from antiphon.papers.model import Paper

PAPER = Paper(
    name="ccube",
    title="Logical/Physical Topology-Aware Collective Communication in Deep Learning Training",
    source="C-Cube, HPCA 2023",
    experiments=(FIG_3, FIG_4, FIG_5, FIG_7, FIG_8, FIG_10, FIG_12, FIG_13, FIG_14, FIG_15, FIG_16, FIG_17),
    styles=STYLES
    | FIG12_STYLES
    | SIZE_STYLES
    | FORMULA_STYLES
    | FIG3_STYLES
    | CHUNK_STYLES
    | LAYER_STYLES
    | RESNET_STYLES
    | TREE_STYLES,
    claims=claims,
    reading="Every AllReduce is built as a schedule, proven, and simulated message by message: a step takes a latency"
    " and the bytes of a chunk over the rate. “Paper” is what its text states; the figures have no numbers, so points"
    " that are only drawn are shown without one. “Reference” is a closed form for the same, never judged by. One"
    " number is fitted: the latency of a step, 12.4 µs, so that the equations give 1.75 at 64 MB (Fig. 12); it is then"
    " used everywhere. What else is assumed is said at the figure. Counted numbers must be equal, others agree within"
    " 5 %. B: two trees; C1: overlapped; C2: the next forward pass chained; CC: both; R: ring.",
    judging="Each claim against our own numbers. A number holds within 5 %; “always” holds in part if it fails in no"
    " more than a quarter of the cases. The loss of the GPUs that forward (Fig. 15) is not checked: a model of the"
    " network does not have it.",
)
