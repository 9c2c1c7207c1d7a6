"""``gpuconf demo``: the story of the README, two scripts on a crowded card, before and after one line."""
