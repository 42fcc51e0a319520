"""The section of the demo's page about training: the same net and the same batches, in another time."""

from collections.abc import Iterator, Sequence

from cordwood.common.text import counted
from cordwood.demo.page.drawing import FEEDS, OURS, TODAY, Curve, curves, smoothed, strip
from cordwood.demo.page.parts import Line, answer, bar_cell, bar_table, figure_cell, key, section
from cordwood.demo.report import Training, TrainingRow
from cordwood.demo.terminal.text import uncounted
from cordwood.doctor.report.charts import safe, swatch


def training_section(training: Training) -> Iterator[str]:
    """The same net, the same batches, the same weights; another time."""
    rows = training.rows
    seconds = max(row.seconds for row in rows)
    drawn = [Curve(row.title, colour, smoothed(row.steps)) for row, colour in zip(rows, _colours(rows), strict=True)]
    top = 1.05 * max(loss for line in drawn for _, loss in line.points)
    yield section("4", "A small net, trained side by side")
    same = "end with the same weights, bit for bit" if all(row.same for row in rows) else "differ in their weights"
    yield (
        f"<p>The net sees every image {counted(training.times, 'time')}, in batches of {training.batch}. Batches and "
        f"their order are the same in all ways, so the nets {same}; what differs is the time.</p>\n"
    )
    yield f'<div class="chart tall"><div class="scale"><span>loss {top:.1f}</span><span>0</span></div>'
    yield curves(drawn, seconds, top)
    marks = "".join(f"<span>{part * seconds / 2:.1f} s</span>" for part in range(3))
    yield f'<div class="axis">{marks}</div></div>\n'
    yield '<ul class="legend">'
    for line, row in zip(drawn, rows, strict=True):
        yield f"<li>{key(line.colour)}{safe(line.title)}: done after {row.seconds:.1f} s</li>"
    told = uncounted(training).capitalize()
    yield f'</ul>\n<p class="quiet">Each point is the mean loss of the last few steps. {told}: processes start and '
    yield "files are opened meanwhile.</p>\n"
    yield "<h3>Where that time went</h3>\n"
    yield '<div class="strips">'
    for row in rows:
        told = f"{row.title}: {row.waited:.0%} of {row.seconds:.1f} s waiting for a batch"
        yield f"<div>{safe(row.title)}</div>{strip(row.steps, seconds, told)}"
    yield '</div>\n<ul class="legend"><li>'
    yield f"{swatch('wait')}waiting for a batch</li><li>{swatch('backward')}the net at work</li></ul>\n"
    fastest = max(row.images_a_second for row in rows)
    table: list[Line] = [
        (
            [
                bar_cell(
                    row.images_a_second / fastest,
                    OURS if row.ours else TODAY,
                    f"{row.images_a_second:,.0f}/s",
                    "images",
                ),
                figure_cell(f"{row.waited:.1%}", "waiting"),
                figure_cell(f"{row.step_seconds * 1000:.1f} ms", "a step takes"),
                answer(row.same, "same weights"),
            ],
            row.title,
            row.ours,
        )
        for row in rows
    ]
    heads = ("fed by", "images a second", "waiting", "a step takes", "same weights")
    yield bar_table("Ways to feed a net", heads, table)
    yield '<p class="quiet">The net has one thread, loading has all cores: where it needs more than are free, it takes '
    yield "them from the net, and a step takes longer. Where other programs keep the cores busy, some of the waiting "
    yield "is for a core.</p>\n"
    yield f'<p class="quiet">Packing {safe(training.paid_back)}.</p>\n'
    for row in rows:
        if row.note:
            yield f'<p class="quiet"><strong>{safe(row.title)}</strong>: {safe(row.note)}.</p>\n'
    yield "</section>\n"


def _colours(rows: Sequence[TrainingRow]) -> Iterator[str]:
    others = iter(FEEDS)
    for row in rows:
        yield OURS if row.ours else next(others)
