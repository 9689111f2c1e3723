"""How the page looks: light and dark, on a phone, on a desk, on paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fdfdfb; --soft: #566270; --line: #d9dee4; --link: #1f5a99;
  --tint: #f2f4f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14181e; --soft: #a3aebb; --line: #39424e;
  --link: #86b6ec; --tint: #1d232b; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0 auto; padding: 2rem 1rem 3rem; max-width: 66rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
@media (min-width: 48rem) { body { padding: 3rem 2rem 4rem; } }
h1 { font-size: clamp(1.5rem, 1.2rem + 1.6vw, 2.1rem); line-height: 1.2; margin: 0 0 1rem; text-wrap: balance; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { max-width: 44rem; margin: 0 0 .75rem; } p.lead { font-size: 1.1rem; }
a { color: var(--link); text-underline-offset: .15em; }
nav { margin: 1.5rem 0 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; list-style: none; margin: 0; padding: 0; }
nav a { display: inline-block; padding: .3rem 0; }
figure { margin: 1rem 0 1.5rem; }
.panels { display: grid; gap: 1.25rem 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); }
.panels.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.panels svg { width: 100%; max-width: 27rem; height: auto; display: block; overflow: visible; font-family: inherit; }
.panels svg image { image-rendering: pixelated; }
figcaption, .note { color: var(--soft); font-size: .9rem; max-width: 44rem; margin-top: .6rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; vertical-align: top; padding: .35rem 0 .35rem 1.25rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 400; } thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal;
  line-height: 1.3; }
th:first-child { text-align: left; padding-left: 0; position: sticky; left: 0; background: var(--paper); }
th.words, td.words { text-align: left; }
th.long, td.long { white-space: normal; min-width: 11rem; overflow-wrap: anywhere; }
.many th, .many td { padding-top: .15rem; padding-bottom: .15rem; }
pre { font: .85rem/1.5 ui-monospace, "Liberation Mono", "DejaVu Sans Mono", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--tint); padding: .7rem .9rem; border-radius: .3rem; margin: .5rem 0; }
pre span { display: inline-block; max-width: 100%; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; padding: .2rem 0; width: fit-content; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 3px; border-radius: 2px; }
footer { margin-top: 3rem; }
@media screen and (max-width: 30rem) {
  .scroll table, .scroll tbody, .scroll tr, .scroll th, .scroll td { display: block; }
  .scroll thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .scroll tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .scroll th, .scroll td { padding: 0; border: 0; white-space: normal; text-align: left; overflow-wrap: anywhere; }
  .scroll tbody th { position: static; font-weight: 600; }
  .scroll td { display: flex; justify-content: space-between; gap: 1rem; text-align: right; }
  .scroll td::before { content: attr(data-head); color: var(--soft); text-align: left; flex: none; max-width: 50%; }
  .scroll td:empty { display: none; } .scroll td.long { display: block; text-align: left; min-width: 0; }
  .scroll td.long::before { content: attr(data-head) ": "; } }
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --link: #000; --tint: #fff; }
  @page { margin: 16mm; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav, details { display: none; }
  h2, h3 { break-after: avoid; } svg, tr, pre { break-inside: avoid; }
  .panels, .panels.two { grid-template-columns: repeat(2, 1fr); }
  .scroll { overflow: visible; } table { font-size: 8.5pt; } th, td { padding-left: 3mm; } td.long { min-width: 0; }
  pre { border: 1px solid var(--line); }
}
"""
