"""Networks by themselves, without a collective."""
