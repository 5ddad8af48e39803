"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""
