"""PyTorch: a fraction of each GPU, which caps its caching allocator once torch initializes CUDA."""
