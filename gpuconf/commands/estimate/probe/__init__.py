"""``gpuconf estimate --probe``: a child runs a few real steps and measures their memory."""
