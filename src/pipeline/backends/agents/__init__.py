"""Agents behind the `Backend` port: one module for each."""
