"""The report on a run: one page for people, as Markdown and as HTML."""
