"""JAX: a single fraction for every GPU, which XLA reads when JAX creates its GPU client."""
