"""How others take part in a run: the hooks, and the manager that calls them safely."""

ENTRY_POINTS = "awf.plugins"  # what packages offer their plugins under
