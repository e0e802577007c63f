//! What a Rust worker uses: ask for a slot, send, report.
