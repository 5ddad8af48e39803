"""Training: what is asked, what carries the exchanges, and what comes of it."""
