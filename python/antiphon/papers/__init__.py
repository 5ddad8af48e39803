"""Papers whose tables and figures Antiphon reproduces: one module a paper, experiments only."""
