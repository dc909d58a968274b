"""Findings across passes: which one is known, and what a pass makes of those that are."""
