"""Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (C-Cube, HPCA 2023)."""
