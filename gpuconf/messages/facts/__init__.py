"""What a log tells besides its cause: tensors, cards, versions, the user's own line, the dump."""
