"""ACE: Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms (ISCA 2021)."""

from antiphon.papers.ace.allreduce import fig4, fig5, fig6, fig8, fig9a, iv_i, knee, monotone, times_less, vi_a
from antiphon.papers.ace.runs import DATA
from antiphon.papers.ace.tables import table4, tables
from antiphon.papers.ace.training import fig9b, fig10, fig11, fig12, fit, network_mean, network_most, no_overlap
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (fig4, fig5, fig6, tables, fig8, table4, iv_i, fig9a, fig9b, vi_a, fig10, fig11, fig12),
    {
        "monotone": monotone,
        "knee": knee,
        "times-less": times_less,
        "fit": fit,
        "no-overlap": no_overlap,
        "network-mean": network_mean,
        "network-most": network_most,
    },
)
