"""What a request to a provider costs and what its answer used: pure functions, no I/O, no SDK imported."""
