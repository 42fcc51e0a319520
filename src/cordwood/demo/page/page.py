"""The demo as one HTML file that opens offline: photographs, bars, curves, and what the doctor said.

    Path("index.html").write_text(format_page(report), encoding="utf-8")

The page loads nothing and runs nothing; its pictures are inside of it.
"""

import shlex
from collections.abc import Iterator

from cordwood import __version__
from cordwood.common.html import safe
from cordwood.common.numbers import milliseconds
from cordwood.common.text import counted, human
from cordwood.demo.page.doctor_section import doctor_section
from cordwood.demo.page.parts import commands, section, times
from cordwood.demo.page.sections import (
    compared_section,
    images_section,
    packing_section,
    training_section,
    views_section,
)
from cordwood.demo.page.style import STYLE
from cordwood.demo.report import DemoReport

PAGE = "index.html"
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def format_page(report: DemoReport) -> str:
    """The whole page."""
    acts = (
        images_section(report.images),
        packing_section(report.packing),
        compared_section(report.compared),
        training_section(report.training),
        views_section(report.views),
        doctor_section(report.doctored),
        files_section(report),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Cordwood: the demo</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{header(report)}<main>\n{''.join(part for act in acts for part in act)}</main>\n"
        f"{footer(report)}</body>\n</html>\n"
    )


def header(report: DemoReport) -> str:
    """What it is about, and the figures that people decide by."""
    return (
        '<header>\n<p class="quiet">Cordwood: the demo</p>\n'
        "<h1>Preprocess once, keep it small, feed it fast, and know why training is slow</h1>\n"
        '<p class="lead">Everything on this page was made by one run of <code>cordwood demo</code> on this machine: '
        "the files, the times, the charts. No figure is from anywhere else.</p>\n"
        f'<ul class="tiles">{"".join(tiles(report))}</ul>\n</header>\n'
    )


def tiles(report: DemoReport) -> Iterator[str]:
    """One figure an act."""
    compared, training, doctored = report.compared, report.training, report.doctored
    store = compared.rows[-1]
    kept = "bit for bit the same" if store.is_exact else "not the same bits"
    yield _tile(times(1 / compared.share(store)), "smaller than torch.save", f"a packed store, {kept}")
    files, ours = training.rows[0], next(row for row in training.rows if row.is_ours)
    told = f"{ours.images_a_second:,.0f} images a second, {files.images_a_second:,.0f} from the image files"
    yield _tile(times(ours.images_a_second / files.images_a_second), "the training speed", told)
    plain, trimmed = report.views.rows[0], next(row for row in report.views.rows if row.was_trimmed)
    still = ", still shared" if trimmed.is_shared else ""
    told = f"{human(plain.two_views)} become {human(trimmed.two_views)}{still}"
    yield _tile(times(plain.two_views / trimmed.two_views), "smaller, once trimmed", told)
    if doctored.times_as_fast is not None:
        steps = f"{milliseconds(doctored.before_ms)} a step become {milliseconds(doctored.after_ms)}"
        sure = "" if doctored.is_clear else "; the noise is as large as that"
        told = f"{steps}, by following the doctor's advice{sure}"
        yield _tile(times(doctored.times_as_fast), "the speed of a sick script", told)


def _tile(figure: str, what: str, more: str) -> str:
    return f'<li><strong>{safe(figure)}</strong><span>{safe(what)}</span><span class="quiet">{safe(more)}</span></li>'


def files_section(report: DemoReport) -> Iterator[str]:
    """What is left behind, and what to do with files of one's own."""
    yield section("", "Files, and what is next")
    delete = f"rm -r {shlex.quote(str(report.folder))}"
    yield f"<p>The run left {human(report.nbytes)}, to look at or to delete (<code>{safe(delete)}</code>):</p>\n<ul>\n"
    for made in report.made:
        name = made.path.relative_to(report.folder).as_posix()
        if name == PAGE:
            continue
        yield f'<li><a href="{safe(name)}">{safe(name)}</a>: {safe(made.what)}</li>\n'
    yield "</ul>\n<p>The same with files of your own, first as a trial that writes nothing:</p>\n"
    own = "photos/ train.cordwood --transform mypkg.prep:prepare"
    yield commands([f"cordwood pack {own} --limit 200", f"cordwood pack {own}"])
    yield commands(["cordwood inspect checkpoint.pt", "cordwood trim checkpoint.pt -o small.pt"])
    yield commands(["cordwood doctor train.py"])
    yield "</section>\n"


def footer(report: DemoReport) -> str:
    """Where it ran, and how long."""
    facts = report.environment
    machine = f"{facts['processor']}, {counted(facts['cores'], 'core')}, {facts['system']}"
    software = f"Python {facts['python']}, torch {facts['torch']}"
    return (
        f"<footer>Made by cordwood {safe(__version__)} in {report.seconds:.0f} seconds. {safe(machine)}; "
        f"{safe(software)}. Times are medians or sums as told, and depend on what else the machine did.</footer>\n"
    )
