//! A versioned register for scope values: load and compare-and-swap; memory store and conformance suite.
