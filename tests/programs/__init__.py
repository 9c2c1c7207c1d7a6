"""One home for the programs that tests start, and for the GPUs that they run on."""
