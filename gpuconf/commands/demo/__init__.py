"""``gpuconf demo``: two scripts on a crowded card, before and after one line, as in the README."""
