"""How the page looks. It names no font, picture or address that is not on every machine."""

STYLE = """\
:root { --ink: #1c2128; --quiet: #59636e; --paper: #ffffff; --line: #d8dee4; --tint: #f6f8fa;
  --good: #1a7f37; --bad: #c1272d; --other: #8a5a00; --accent: #0a5fc4; --new: #d9912b; --resolved: #4ba668; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --quiet: #9aa5b1; --paper: #0f1419; --line: #2f3742; --tint: #181f27;
    --good: #56c271; --bad: #ff7b72; --other: #e0b04c; --accent: #6cb0ff; --new: #c98527; --resolved: #3f8f59; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
.badge { font-size: .85rem; font-weight: 600; padding: .15rem .65rem; border: 1px solid; border-radius: 1rem;
  vertical-align: .25em; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .other { color: var(--other); }
blockquote { margin: 0 0 1.5rem; padding: .1rem 0 .1rem 1rem; border-left: 3px solid var(--accent);
  overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: .75rem 1.5rem; margin: 0;
  padding: 1rem 1.25rem; background: var(--tint); border: 1px solid var(--line); border-radius: .5rem; }
dt { color: var(--quiet); font-size: .8rem; } dd { margin: 0; overflow-wrap: anywhere; }
.way { color: var(--quiet); overflow-wrap: anywhere; margin: 0 0 .75rem; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--quiet); font-weight: 500; font-size: .8rem; white-space: nowrap; }
th, td { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; }
.sums tbody tr:last-child td { font-weight: 600; border-bottom: 0; }
details { margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; overflow-wrap: anywhere; }
ol { margin: .25rem 0 1rem; color: var(--quiet); font-size: .9rem; overflow-wrap: anywhere; }
figure { margin: 0 0 1rem; }
.curve { width: 100%; max-width: 40rem; height: auto; display: block; }
.curve text { fill: var(--quiet); font-size: 12px; }
.curve .grid { stroke: var(--line); }
.curve .new { fill: var(--new); } .curve .resolved { fill: var(--resolved); }
.curve line.outstanding { stroke: var(--accent); stroke-width: 2; } .curve circle.outstanding { fill: var(--accent); }
.key { font-size: .85rem; color: var(--quiet); margin-right: 1rem; }
.key::before { content: ""; display: inline-block; width: .7rem; height: .7rem; margin-right: .4rem; border-radius: 2px;
  background: var(--accent); }
.key.new::before { background: var(--new); } .key.resolved::before { background: var(--resolved); }
@media print {
  :root { --ink: #000; --quiet: #444; --paper: #fff; --line: #bbb; --tint: #fff;
    --good: #1a7f37; --bad: #c1272d; --other: #8a5a00; --accent: #0a5fc4; --new: #d9912b; --resolved: #4ba668; }
  body { font-size: 11pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; } tr, figure, dl { break-inside: avoid; } thead { display: table-header-group; }
  .wide { overflow: visible; }
  details::details-content { content-visibility: visible; }
  .curve rect, .key::before, .badge { print-color-adjust: exact; }
}
"""
