"""Models that were not used to tune the estimate; one half may be learned from."""
