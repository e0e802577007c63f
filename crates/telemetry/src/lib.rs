//! The catalogue of metrics, the instruments behind it, and tracing set-up.
