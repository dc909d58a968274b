"""The application: what commands, pages and workers do with runs, workflows, settings and findings."""
