"""``gpuconf demo``: two scripts on a crowded GPU, without and with one line, as in the README."""
