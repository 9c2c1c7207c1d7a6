"""The ground that every part stands on: units, terminal, environment variables, JSON."""
