"""The style sheet of the demo's page: that of the doctor's report, with tiles, photographs and tables of bars."""

from cordwood.doctor import REPORT_STYLE

STYLE = (
    REPORT_STYLE
    + """
h1 { font-size: 1.9rem; margin-top: .2rem; }
h2 { font-size: 1.35rem; margin-top: 3rem; }
h2 .act { color: var(--quiet); font-weight: 400; }
.lead { font-size: 1.1rem; max-width: 46rem; }
main p { max-width: 50rem; }
a { color: var(--link); }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem;
  margin: 1.25rem 0 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.tiles strong { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--good);
  font-variant-numeric: tabular-nums; }
.tiles span { display: block; }
.tiles .quiet { font-size: .85rem; margin-top: .2rem; }
.photographs { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.6rem, 1fr)); gap: .5rem;
  margin: .8rem 0; padding: 0; list-style: none; }
.photographs img { display: block; width: 100%; height: auto; border-radius: 6px; }
.photographs li { font-size: .8rem; color: var(--quiet); text-align: center; }
table.bars td { vertical-align: middle; }
table.bars th[scope=row] { text-align: left; font-weight: 400; color: var(--text); white-space: normal;
  min-width: 10rem; width: 30%; }
table.bars tr.ours th[scope=row] { font-weight: 600; }
table.bars .cell { display: grid; grid-template-columns: minmax(3.5rem, 1fr) 6.4rem; gap: .6rem; align-items: center; }
table.bars .figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.bars td.answer, table.bars th.answer { text-align: center; white-space: nowrap; }
.no { color: var(--bad); font-weight: 600; }
svg.amount { height: .95rem; border-radius: 2px; }
svg.stack { height: 2.2rem; border-radius: 4px; }
.gap { fill: var(--page); }
.curve { fill: none; stroke-width: 2.5; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.end { fill: none; stroke-width: 1.5; stroke-dasharray: 4 4; vector-effect: non-scaling-stroke; }
.chart.tall svg { height: 15rem; }
.key { display: inline-block; width: 1.1em; height: .35em; border-radius: 2px; margin-right: .5em;
  vertical-align: .2em; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.strips { display: grid; grid-template-columns: minmax(7rem, 17rem) 1fr; gap: .35rem .75rem; align-items: center;
  font-size: .9rem; margin: .6rem 0; }
.strips svg.amount { height: 1.5rem; background: var(--card); }
.spans { display: grid; grid-template-columns: minmax(7rem, 13rem) 1fr minmax(5.5rem, auto); gap: .3rem .75rem;
  align-items: center; font-size: .9rem; margin: .8rem 0; }
.spans .figure { text-align: right; font-variant-numeric: tabular-nums; }
.visits { display: grid; grid-template-columns: 4rem 1fr 5rem; gap: .5rem .75rem; align-items: center;
  margin: .8rem 0; }
.visits .figure { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.visits svg.stack { background: var(--card); }
pre .command { font-weight: 600; }
pre .option { white-space: nowrap; }
pre.commands { white-space: pre-wrap; }
pre ins { text-decoration: none; color: var(--good); }
pre del { text-decoration: none; color: var(--bad); }
.span { display: contents; }
@media (min-width: 901px) { table.bars th[scope=row] { width: 1%; white-space: nowrap; padding-right: 2rem; } }
@media (max-width: 900px) { .tiles { grid-template-columns: 1fr 1fr; } }
@media (max-width: 640px) {
  table.bars thead { display: none; }
  table.bars tr { display: flex; flex-wrap: wrap; column-gap: 1rem; padding: .45rem 0;
    border-bottom: 1px solid var(--line); }
  table.bars th[scope=row], table.bars td { border: 0; padding: 0; width: auto; }
  table.bars th[scope=row], table.bars td.bar { flex: 0 0 100%; }
  table.bars td.bar { display: flex; align-items: center; }
  table.bars td .cell { flex: 1; grid-template-columns: 1fr 5.6rem; }
  table.bars td:not([data-name=""])::before { content: attr(data-name); color: var(--quiet); font-size: .8rem;
    width: 3.2rem; margin-right: .4rem; }
  .strips { grid-template-columns: 1fr; gap: .1rem; } .strips svg { margin-bottom: .4rem; }
  .spans { display: block; } .span { display: grid; grid-template-columns: 1fr auto; margin-bottom: .4rem; }
  .span svg { grid-column: 1 / -1; grid-row: 2; }
  .visits { grid-template-columns: 3.2rem 1fr; gap: .2rem .5rem; }
  .visits .figure { grid-column: 2; text-align: left; margin-bottom: .4rem; }
  h1 { font-size: 1.5rem; } .tiles { gap: .5rem; }
  .tiles li { padding: .6rem .7rem; } .tiles strong { font-size: 1.35rem; } }
@media print {
  h2 { margin-top: 1.5rem; } .tiles { grid-template-columns: repeat(4, 1fr); } .tiles strong { font-size: 1.3rem; }
  .tiles li { padding: .5rem .6rem; }
  table, .chart, .strips, .spans, .visits, .tiles, .photographs { break-inside: avoid; } }
"""
)
