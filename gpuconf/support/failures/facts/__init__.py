"""Facts in a log other than its cause: tensors, GPUs, versions, the user's code, the dump."""
