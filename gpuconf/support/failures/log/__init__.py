"""A log of any encoding and size, as numbered lines of text."""
