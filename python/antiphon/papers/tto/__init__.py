"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""

from antiphon.papers.tto.allreduce import (
    applicable,
    fig8,
    fig9,
    fig12,
    fig14,
    hard,
    linear,
    no_bi_odd,
    odd_corner,
    table1,
)
from antiphon.papers.tto.artifact import DATA
from antiphon.papers.tto.training import fig10, fig11, fig13, one_less, viii_b
from antiphon.papers.tto.trees import fig3, fig4, fig6, fig7, iii_a, table2
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (iii_a, table1, fig3, fig4, fig6, fig7, table2, fig8, fig9, fig10, fig11, fig12, fig13, viii_b, one_less, fig14),
    {"odd-corner": odd_corner, "no-bi-odd": no_bi_odd, "applicable": applicable, "hard": hard, "linear": linear},
)
