"""awf: run AI-coding workflows that lose nothing they found."""

__version__ = "0.1.0"
