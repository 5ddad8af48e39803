"""Documents of results, a function for each kind."""
