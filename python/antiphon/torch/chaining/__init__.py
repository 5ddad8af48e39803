"""Gradients exchanged behind the next forward pass, layer by layer: C-Cube (HPCA 2023) in PyTorch."""
