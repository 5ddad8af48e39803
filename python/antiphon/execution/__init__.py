"""Schedules run on real data: in this process, by MPI ranks, on an emulated fabric."""
