"""Training steps of large models, and what there is to time them."""
