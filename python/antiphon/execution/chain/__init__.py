"""Iterations of training whose next forward pass runs behind the exchange of gradients, run and measured (C-Cube, HPCA
2023)."""
