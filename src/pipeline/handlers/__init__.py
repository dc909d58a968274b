"""One module for each kind of stage. A handler turns a job into an outcome, through ports alone."""
