"""Where everything of a drawing goes: boxes in layers, lines that cross no box, labels that cover nothing."""
