"""Where findings that are put off become tickets: one module for each tracker, and the order they are tried in."""
