"""Runs on many machines: a second driver of the engine, on Temporal. Records and texts are in a shared object store."""
