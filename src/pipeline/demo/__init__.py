"""`awf demo`: a small project with real defects, and a run that finds and repairs them without a key or a network."""
