"""How commands say what they found: as text, tables and pictures, and as JSON."""
