"""Facts in a log other than its cause: tensors, cards, versions, the user's code, the dump."""
