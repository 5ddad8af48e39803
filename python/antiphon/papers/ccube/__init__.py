"""Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (C-Cube, HPCA 2023)."""

from antiphon.papers.ccube.systems import DATA, fig3, fig4, fig12, fig14
from antiphon.papers.ccube.training import fig1, fig13, fig15, fig17
from antiphon.papers.ccube.trees import doubled, fig2, fig5, fig6, fig7, fig8, fig10, fig16, iv_a
from antiphon.repro.figure import Paper

FIGURES = (fig1, fig2, fig3, fig4, fig5, fig6, fig7, fig8, fig10, iv_a, fig12, fig13, fig14, fig15, fig16, fig17)
PAPER = Paper(DATA, FIGURES, {"doubled": doubled})
