"""JAX: one fraction of every GPU, which XLA takes when JAX makes its client of the GPUs."""
