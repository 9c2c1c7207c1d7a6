"""`gpuconf run` and `gpuconf shell`: plan here, then become the command, which carries the plan."""
