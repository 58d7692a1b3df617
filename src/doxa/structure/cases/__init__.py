"""The cases that a score counts: complete, with missing cells, or counted where the data live."""
