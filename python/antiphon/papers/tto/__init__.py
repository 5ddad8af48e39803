"""Enhancing Collective Communication in MCM Accelerators for Deep Learning Training (HPCA 2024)."""
