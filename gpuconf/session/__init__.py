"""This process: from a profile to the settings of its frameworks, and the leases for them."""
