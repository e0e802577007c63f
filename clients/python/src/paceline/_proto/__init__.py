"""The messages of proto/paceline/v1, made by `generate`; not part of the interface."""
