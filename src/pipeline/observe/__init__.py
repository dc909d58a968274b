"""Showing a run while it happens: plain lines, a live view, a log file. Nothing here can change a run."""
