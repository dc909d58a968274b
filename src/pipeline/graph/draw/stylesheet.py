"""The colours and fonts of the picture. Every rule names the picture's class: none leaks into a page around it."""

from collections.abc import Iterable, Iterator, Mapping

from pipeline.graph.draw.palette import DARK, DARK_PAGE, LIGHT, LIGHT_PAGE, Page, Paint

_FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_BASE = (
    f".awf text{{font-family:{_FONT};unicode-bidi:plaintext}}",
    ".awf .title{font-size:19px;font-weight:650}",
    ".awf .description{font-size:12.5px}",
    ".awf .name{font-size:14px;font-weight:600}",
    ".awf .about{font-size:11px;font-weight:400;opacity:.8}",
    ".awf .label{font-size:11.5px;text-anchor:middle}",
    ".awf .shape{stroke-width:1.5}",
    ".awf .goal-gate>.shape{stroke-width:3}",
    ".awf .missing>.shape{stroke-dasharray:5 4}",
    ".awf .trim,.awf .sign{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}",
    ".awf .line{fill:none;stroke-width:1.6;stroke-linecap:round}",
    ".awf .retry-target>.line,.awf .branch>.line{stroke-dasharray:2 5}",
)


def stylesheet(families: Iterable[str]) -> str:
    """The style of a picture that holds these kinds of stages."""
    kinds = sorted(families)
    light = "".join((*_BASE, *_page(LIGHT_PAGE), *_paints(LIGHT, kinds)))
    dark = "".join((*_page(DARK_PAGE), *_paints(DARK, kinds)))
    return f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>\n"


def _page(page: Page) -> Iterator[str]:
    yield f".awf .card{{fill:{page.card};stroke:{page.border}}}.awf .ground{{fill:{page.card}}}"
    yield f".awf .title{{fill:{page.ink}}}.awf .description{{fill:{page.quiet}}}.awf .label{{fill:{page.ink}}}"
    yield f".awf .line{{stroke:{page.line}}}.awf .head{{fill:{page.line}}}.awf .start{{fill:{page.ink}}}"


def _paints(paints: Mapping[str, Paint], families: Iterable[str]) -> Iterator[str]:
    for family in families:
        paint, own = paints[family], f".awf .{family}>"
        yield f"{own}.shape{{fill:{paint.fill};stroke:{paint.stroke}}}"
        yield f"{own}.trim,{own}.sign{{stroke:{paint.stroke if family != 'exit' else paint.ink}}}"
        yield f"{own}text{{fill:{paint.ink}}}"
