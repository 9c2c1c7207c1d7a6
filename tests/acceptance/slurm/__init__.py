"""Real Slurm on this machine, for jobs that share a simulated GPU."""
