"""``gpuconf demo``: two scripts on a crowded GPU, before and after one line, as in the README."""
