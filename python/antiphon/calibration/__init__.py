"""What the user's own machine does to communication beside computation."""
