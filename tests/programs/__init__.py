"""One home for the programs that tests start, and for the cards that they run on."""
