"""Any log, in any encoding and of any size, as numbered lines of text."""
