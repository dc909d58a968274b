"""Many machines: a second driver of the same machine, on Temporal. Records and big texts live in a shared store."""
