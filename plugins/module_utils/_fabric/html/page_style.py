# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Style sheet of the report: light or dark by the reader's scheme, light on paper, from a width of 320 pixels.

Good is blue and bad is orange, which can be distinguished with any colour blindness; a sign and a word show it too.
All texts have a contrast of at least 4.5 to 1 with their background.
"""

from __future__ import annotations

_LIGHT = """
  color-scheme: light;
  --paper: #ffffff; --plate: #f5f6f8; --line: #d3d8de; --ink: #1c2024; --soft: #565f6b; --link: #005a9c;
  --good: #005a9c; --good-plate: #e3f0fa; --bad: #a33b00; --bad-plate: #fdeadd; --bad-full: #b34100;
  --open: #565f6b; --open-plate: #eceef1; --on-full: #ffffff; --focus: #b4558c; --shade: #7a8490;
"""
_DARK = """
  color-scheme: dark;
  --paper: #14171a; --plate: #1d2126; --line: #3a424c; --ink: #e8eaed; --soft: #a9b2bd; --link: #7cc4f7;
  --good: #7cc4f7; --good-plate: #14304a; --bad: #ffad7a; --bad-plate: #47220b; --bad-full: #ffad7a;
  --open: #a9b2bd; --open-plate: #2a3037; --on-full: #14171a; --focus: #f09ccb; --shade: #8a94a0;
"""

SHEET = (
    """
:root {%s}
@media screen and (prefers-color-scheme: dark) { :root {%s} }
"""
    % (_LIGHT, _DARK)
    + """
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100% }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif
}
header, main, footer, nav ul { max-width: 1180px; margin: 0 auto; padding: 0 20px }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .6rem; padding-top: 2rem; overflow-wrap: anywhere }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere }
p, ul, ol, dl { margin: .4rem 0 .8rem; overflow-wrap: anywhere }
a { color: var(--link) }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; border-radius: 3px }
code { font: .875em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere }
.soft { color: var(--soft) }
.small { font-size: .875rem }
.tight { white-space: nowrap }
.skip { position: absolute; left: -999px; top: 0; padding: .5rem 1rem; background: var(--paper); z-index: 2 }
.skip:focus { left: 0 }
nav { position: sticky; top: 0; z-index: 1; background: var(--plate); border-block: 1px solid var(--line) }
nav ul {
  display: flex; gap: 0 1.1rem; list-style: none; margin-block: 0; overflow-x: auto; white-space: nowrap;
  /* a shadow at the edge beyond which there is more to scroll to */
  background: linear-gradient(to right, var(--plate) 40%, transparent) left / 48px 100%,
    linear-gradient(to left, var(--plate) 40%, transparent) right / 48px 100%,
    linear-gradient(to right, var(--shade), transparent) left / 20px 100%,
    linear-gradient(to left, var(--shade), transparent) right / 20px 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll
}
nav a { display: block; padding: .5rem 0; text-decoration: none }
nav a:hover { text-decoration: underline }
section { scroll-margin-top: 1rem }
.badge {
  display: inline-block; padding: .15rem .7rem; border-radius: 1rem; font-weight: 600;
  border: 2px solid currentColor
}
.badge.ok, .tile.ok strong { color: var(--good) }
.badge.failed { color: var(--on-full); background: var(--bad-full); border-color: var(--bad-full) }
.badge.open { color: var(--open) }
.tiles {
  display: grid; grid-template-columns: repeat(var(--columns, 4), 1fr); gap: .8rem; margin: 1rem 0;
  padding: 0; list-style: none
}
.tile {
  background: var(--plate); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .9rem;
  line-height: 1.3
}
.tile strong { display: block; font-size: 1.25rem }
.tile.failed strong { color: var(--bad) }
.tile.failed { border-left: 5px solid var(--bad-full) }
.steps { list-style: none; padding: 0; counter-reset: step }
.steps > li {
  counter-increment: step; border: 1px solid var(--line); border-left: 5px solid var(--bad-full);
  border-radius: 8px; padding: .7rem 1rem; margin: 0 0 .8rem; break-inside: avoid
}
.steps h3 { margin: 0 0 .2rem }
.steps p { margin: .1rem 0 }
.steps h3::before { content: counter(step) ". " }
table { margin: .6rem 0; border-collapse: collapse; font-size: .9rem; line-height: 1.4 }
caption { text-align: left; color: var(--soft); padding: .2rem 0; font-size: .875rem }
th { text-align: left; font-weight: 600 }
.cards { width: 100% }
.cards tbody th { min-width: 8.5rem }
.cards th, .cards td {
  border-bottom: 1px solid var(--line); padding: .35rem .8rem .35rem 0; vertical-align: top;
  overflow-wrap: anywhere
}
.cards thead th { color: var(--soft); font-weight: 400; white-space: nowrap }
.scroll { overflow-x: auto; max-width: 100%; padding: 2px }
.matrices { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: flex-start }
.matrix { border-collapse: separate; border-spacing: 2px; margin: .4rem 0 }
.matrix caption { padding-left: 2px; color: var(--ink); font-weight: 600 }
.matrix thead th {
  writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 400; line-height: 1.9rem; padding: .3rem 0;
  text-align: left; vertical-align: bottom; color: var(--soft)
}
.matrix thead th:first-child { writing-mode: horizontal-tb; transform: none; line-height: 1.4 }
.matrix tbody th {
  font-weight: 400; padding-right: .6rem; white-space: nowrap; max-width: 18rem; overflow: hidden;
  text-overflow: ellipsis
}
.matrix td {
  min-width: 1.9rem; height: 1.7rem; text-align: center; border-radius: 3px; font-variant-numeric: tabular-nums
}
.matrix td.ok { background: var(--good-plate); color: var(--good) }
.matrix td.failed { background: var(--bad-full); color: var(--on-full); font-weight: 700 }
.matrix td.failed a { color: inherit; display: block; text-decoration: none }
.matrix td.open { background: var(--open-plate); color: var(--open) }
.matrix.sums td { padding: 0 .5rem }
.key { display: inline-block; min-width: 1.5rem; text-align: center; border-radius: 3px; margin-right: .35rem }
.key.ok { background: var(--good-plate); color: var(--good) }
.key.failed { background: var(--bad-full); color: var(--on-full); font-weight: 700 }
.key.open { background: var(--open-plate); color: var(--open) }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; font-size: .875rem }
.word { white-space: nowrap }
.notes { padding: .5rem 1rem .5rem 2rem; border: 1px solid var(--line); border-left: 5px solid var(--bad-full) }
.word.failed { color: var(--bad); font-weight: 600 }
.word.ok { color: var(--good) }
.word.open { color: var(--open) }
.picture svg { display: block; max-width: 100%; height: auto }
details { margin: .5rem 0 }
summary { cursor: pointer; color: var(--link) }
footer { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-block: 1rem 2rem }
@media (max-width: 640px) {
  body { font-size: 15px }
  header, main, footer, nav ul { padding-inline: 14px }
  .tiles { grid-template-columns: 1fr 1fr; gap: .5rem }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1 }
  .cards, .cards tbody, .cards tr, .cards th, .cards td { display: block; width: 100% }
  .cards caption { display: block }
  .cards tbody th { min-width: 0 }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  .cards tr { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem; margin: 0 0 .6rem }
  .cards th, .cards td { border: 0; padding: .1rem 0; white-space: normal }
  .cards td::before { content: attr(data-label) ": "; color: var(--soft) }
  .cards.brief td { display: inline-block; width: auto; margin-right: 1rem }
  .cards .empty, .cards.brief .empty { display: none }
  .matrix tbody th { max-width: 8rem }
  .matrix td { min-width: 1.55rem }
  .matrix thead th { line-height: 1.55rem }
  .matrix.sums td { padding: 0 .25rem }
}
@media print {
  body { font-size: 10pt }
  nav, .skip { display: none }
  header, main, footer { max-width: none; padding: 0 }
  h2 { break-after: avoid; padding-top: 1.2rem }
  tr { break-inside: avoid }
  thead { display: table-header-group }
  .scroll { overflow: visible }
  .matrix td, .key, .badge, .tile { print-color-adjust: exact; -webkit-print-color-adjust: exact }
  .picture svg { max-width: 100%; min-width: 0 !important }
  table { font-size: 8.5pt }
  details::details-content { content-visibility: visible; display: block; block-size: auto; opacity: 1 }
  summary { list-style: none; color: inherit }
  a { color: inherit; text-decoration: none }
}
"""
)
