"""Paceline's dashboards, as code: `generate` writes them, `check` holds them to the catalogue of metrics."""
