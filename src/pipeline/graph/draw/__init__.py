"""A workflow as a picture: text, Mermaid, Graphviz or SVG."""
