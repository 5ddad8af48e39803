"""Emulated fabrics: a network namespace of this machine for each rank, joined as the fabric says."""
