"""`gpuconf run` and `gpuconf shell`: plan here, then exec the command, which carries the plan."""
