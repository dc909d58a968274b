"""What a reader of Markdown makes of a page, without its words."""

from markdown_it import MarkdownIt
from markdown_it.token import Token

_WORDS = ("text", "text_special")
_BREAKS_MENTIONS = "<!-- -->"


def shape(page: str) -> list[str]:
    """The headings, lists, tables, links and so on of a page, in order, with the level of each."""
    found = list[str]()
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page):
        found.append(f"{token.level} {token.type} {token.tag}")
        found += [f"{token.level} {child.type} {child.tag}" for child in token.children or () if not _is_word(child)]
    return found


def _is_word(token: Token) -> bool:
    return token.type in _WORDS or (token.type == "html_inline" and token.content == _BREAKS_MENTIONS)
