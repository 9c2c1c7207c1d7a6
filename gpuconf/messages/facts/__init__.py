"""What a log says beyond its cause: tensors, cards, versions, the user's own line, the dump."""
