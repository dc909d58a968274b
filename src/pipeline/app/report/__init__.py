"""What a run did, as one page for people: gathered once, written as Markdown and as HTML."""
