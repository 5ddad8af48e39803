"""ACE: Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms (ISCA 2021)."""
