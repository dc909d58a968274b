"""Watching runs: a live view, plain lines, a log. Nothing here can change a run."""
