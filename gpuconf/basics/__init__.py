"""The foundation for all other parts: units, terminal, environment variables, JSON."""
