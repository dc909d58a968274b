"""The engine: a state machine without I/O, and the one loop that carries out what it decides."""
