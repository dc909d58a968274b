"""One finding after the other put before a person, and the report on what was decided."""
