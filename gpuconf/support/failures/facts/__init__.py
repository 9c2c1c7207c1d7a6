"""Facts in a log other than the cause: tensors, GPUs, versions, the user's code, the dump."""
