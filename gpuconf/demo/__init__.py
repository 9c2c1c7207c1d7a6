"""The story of the README, run: two scripts on a crowded card, before and after one line."""
