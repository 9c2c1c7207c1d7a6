"""A scheduler's share becomes a limit: real Ray on the simulated GPU, and Slurm's environments."""
