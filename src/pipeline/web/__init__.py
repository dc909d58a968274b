"""The dashboard: runs, findings and gates in a browser."""
