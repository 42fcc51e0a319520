"""The style sheet of the HTML report: light and dark, for desktop, phone and paper."""

# Phases keep their colours everywhere. They can be told apart by people who see colours differently, and by lightness.
PHASE_COLOURS = {
    "wait": "#d55e00",
    "transfer": "#cc79a7",
    "forward": "#0072b2",
    "backward": "#56b4e9",
    "optimizer": "#009e73",
    "other": "#8a8f98",
}

REPORT_STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f7f9; --line: #d5d9e0; --text: #1b1e23;
  --quiet: #545b66; --link: #0b57a4; --code: #eceff3; --good: #1a6b3c; --bad: #b3261e; --warn: #7a5200; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14161a; --card: #1d2026; --line: #3a404a; --text: #e8eaee; --quiet: #aab1bd; --link: #8ab8f0;
    --code: #262a32; --good: #7fd6a2; --bad: #ff9a90; --warn: #f0c261; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p { margin: .4rem 0; }
.quiet { color: var(--quiet); }
.verdict-high { color: var(--bad); } .verdict-medium { color: var(--warn); } .verdict-good { color: var(--good); }
code, pre, .path { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .9em; }
p code, td code { background: var(--code); border-radius: 3px; padding: .05em .25em; }
pre { background: var(--code); border-radius: 6px; padding: .6rem .75rem; margin: .4rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .4rem 0; }
pre:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
table { border-collapse: collapse; font-size: .92rem; width: 100%; overflow-wrap: break-word; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--quiet); white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { min-width: 9rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em;
  vertical-align: -.05em; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.phase { display: flex; align-items: baseline; } .phase .swatch { flex: none; }
.finding { background: var(--card); border: 1px solid var(--line); border-left: .4rem solid var(--quiet);
  border-radius: 6px; padding: .75rem 1rem; margin: .75rem 0; break-inside: avoid-page; }
.finding.high { border-left-color: #b3261e; } .finding.medium { border-left-color: #e0a100; }
.finding.info { border-left-color: #1f5fa8; }
.finding h3 { margin-top: 0; }
.badge { display: inline-block; border-radius: 1rem; padding: 0 .6rem; font-size: .8rem; font-weight: 600;
  margin-right: .5rem; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.badge.high { background: #b3261e; color: #fff; } .badge.medium { background: #f2b200; color: #1b1e23; }
.badge.info { background: #1f5fa8; color: #fff; } .badge.passed { background: #1a6b3c; color: #fff; }
.badge.failed { background: #b3261e; color: #fff; } .badge.abstained { background: #545b66; color: #fff; }
.badge.silenced { background: #545b66; color: #fff; }
.gain { font-weight: 600; }
svg { display: block; width: 100%; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.bar svg { height: 2rem; border-radius: 4px; }
.chart { display: grid; grid-template-columns: auto 1fr; column-gap: .5rem; font-size: .8rem; color: var(--quiet);
  font-variant-numeric: tabular-nums; }
.chart svg { height: 11rem; border-left: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.chart.low svg { height: 7rem; }
.chart .scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
.chart .axis { grid-column: 2; display: flex; justify-content: space-between; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; list-style: none; padding: 0; margin: .4rem 0;
  font-size: .9rem; }
.waterfall { display: grid; grid-template-columns: minmax(7rem, 15rem) 1fr auto; gap: .2rem .75rem; align-items: center;
  font-size: .9rem; }
.waterfall .inner { padding-left: 1rem; color: var(--quiet); }
.waterfall svg { height: 1.1rem; background: var(--card); }
.waterfall .ms { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem; }
footer { padding-top: 1rem; padding-bottom: 2rem; color: var(--quiet); font-size: .9rem; }
@media (max-width: 480px) {
  body { font-size: 15px; } .finding { padding: .6rem .7rem; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  table { font-size: .8rem; } th { white-space: normal; } th, td { padding-right: .45rem; }
  td:not(.number) { overflow-wrap: anywhere; } td.name { min-width: 5.5rem; }
  .waterfall { grid-template-columns: 6.5rem 1fr auto; gap: .2rem .4rem; font-size: .82rem; } }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --line: #bbb; --text: #000; --quiet: #444; --code: #f2f2f2;
    --link: #000; --good: #1a6b3c; --bad: #b3261e; --warn: #7a5200; }
  pre, .scroll { overflow: visible; white-space: pre-wrap; } h2 { break-after: avoid; } }
"""
