"""What the calls are given: rows of arrays, batches of them, what ``fit`` gets."""
