"""What collective libraries do on GPU clusters, as data and formulas: NCCL, RCCL, and what was measured of them."""
