"""A scheduler's share becomes a limit: real Ray on the simulated card, and Slurm's environments."""
