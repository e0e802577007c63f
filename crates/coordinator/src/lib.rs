//! One actor per live scope: a pure step (inputs to effects) and the thin loop that drives it.
