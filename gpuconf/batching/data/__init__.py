"""The data that the calls receive: rows of arrays, batches of rows, the data for ``fit``."""
