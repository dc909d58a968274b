"""`awf demo`: a sample project with defects, and a run that finds and fixes them without an API key or a network."""
