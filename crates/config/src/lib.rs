//! The YAML configuration: parsed, checked, resolved to what the core acts on.
