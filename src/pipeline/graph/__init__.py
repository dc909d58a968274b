"""A workflow as a graph: what can be reached from where, and how it is drawn. Only drawing needs networkx."""
