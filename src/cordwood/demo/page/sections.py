"""The sections of the demo's page about images, packing, the comparison with other ways, training and views."""

from base64 import b64encode
from collections.abc import Iterator, Sequence

from cordwood.common.html import safe
from cordwood.common.text import counted, human
from cordwood.demo.page.drawing import FEEDS, OURS, TODAY, Curve, amount_bar, curves, smoothed, span_bar, strip
from cordwood.demo.page.parts import Line, answer, bar_cell, bar_table, commands, figure_cell, key, section
from cordwood.demo.report import Compared, Packing, PhotographFolder, Training, TrainingRow, Views
from cordwood.demo.terminal.text import uncounted
from cordwood.doctor import swatch
from cordwood.packing import Packed

_NUMBER = 4  # bytes of a float32


def images_section(images: PhotographFolder) -> Iterator[str]:
    """One photograph a class."""
    yield section("1", "An image folder")
    yield (
        f"<p>{counted(images.images, 'JPEG file')} in {counted(len(images.photographs), 'folder')}, one a class, "
        f"{human(images.nbytes)}: parts of photographs that scikit-image and scikit-learn ship, scaled and "
        "mirrored.</p>\n"
    )
    yield '<ul class="photographs">'
    for photograph in images.photographs:
        name = photograph.name.replace("_", " ")
        source = f"data:image/jpeg;base64,{b64encode(photograph.jpeg).decode('ascii')}"
        yield f'<li><img src="{source}" alt="{safe(name)}" width="160" height="160">{safe(name)}</li>'
    yield "</ul>\n</section>\n"


def packing_section(packing: Packing) -> Iterator[str]:
    """From files to a store."""
    packed = packing.packed
    yield section("2", "Packed once")
    yield (
        "<p>Every image is resized, cropped and normalised once, and the float32 tensors are kept in a store. "
        f"{safe(pack_time(packed))}</p>\n"
    )
    yield commands([packing.command])
    sizes = [
        ("the JPEG files", packed.bytes_in, TODAY),
        ("their tensors, in memory", packed.raw_bytes, TODAY),
        *([("one torch.save each", packed.torch_save_bytes, TODAY)] if packed.torch_save_bytes else []),
        ("the store", packed.stored_bytes, OURS),
    ]
    largest = max(nbytes for _, nbytes, _ in sizes)
    rows = [
        ([bar_cell(nbytes / largest, colour, human(nbytes), "")], name, colour == OURS)
        for name, nbytes, colour in sizes
    ]
    yield bar_table("Bytes of the data set", ("", "size"), rows)
    yield "</section>\n"


def pack_time(packed: Packed) -> str:
    """Where the time of so small a job goes: its samples a second are not those of a large one."""
    took = f"{counted(packed.samples, 'image')} took {packed.seconds:.1f} seconds"
    rate = packed.samples_per_second
    if not packed.starting_seconds:
        return f"{took}{'' if rate is None else f', {rate:,.0f} images a second'}."
    started = (
        f"{took}. Workers, each a new Python that imports torch, needed {packed.starting_seconds:.1f} of them to "
        "start: that is done once, however many images there are."
    )
    return started if rate is None else f"{started} From then on it was about {rate:,.0f} images a second."


def compared_section(compared: Compared) -> Iterator[str]:
    """Sizes and times, as bars."""
    shape = "x".join(map(str, compared.shape))
    yield section("3", "What people do today, and Cordwood")
    yield (
        f"<p>{counted(compared.samples, 'float32 tensor')} of {shape}, one by one. A slice of a batch drags the whole "
        "batch into its file; a clone does not, but is as large as its numbers. Bytes are those on the disk, times the "
        "median to read one sample back as a tensor, with one thread.</p>\n"
    )
    slowest = max(row.read_seconds for row in compared.rows)
    rows = []
    for row in compared.rows:
        colour = OURS if row.is_ours else TODAY
        size = bar_cell(compared.share(row), colour, f"{row.bytes_a_sample:,.0f} B", "size")
        read = bar_cell(row.read_seconds / slowest, colour, f"{row.read_seconds * 1000:.2f} ms", "read")
        rows.append(([size, read, answer(row.is_exact, "same bits")], row.title, row.is_ours))
    yield bar_table("Ways to keep a sample", ("way to keep it", "bytes a sample", "to read one", "same bits"), rows)
    many = compared.batches[0].batch
    yield f"<p>Now as training reads them: batches of {many} in random order, without workers.</p>\n"
    fastest = max(batch.images_a_second for batch in compared.batches)
    batches: list[Line] = [
        (
            [
                bar_cell(
                    batch.images_a_second / fastest,
                    OURS if batch.is_ours else TODAY,
                    f"{batch.images_a_second:,.0f}/s",
                    "images",
                ),
                answer(batch.is_exact, "same bits"),
            ],
            batch.title,
            batch.is_ours,
        )
        for batch in compared.batches
    ]
    yield bar_table("Reading batches", ("way to keep it", "images a second", "same bits"), batches)
    yield '<p class="quiet">Files are read one by one and stacked; a batch of the store is read and decoded by one '
    yield "native call, without the GIL.</p>\n</section>\n"


def views_section(views: Views) -> Iterator[str]:
    """What two views reach, and what files hold of it."""
    elements, behind = views.elements, views.behind
    reach = views.step + elements
    yield section("5", "Views that share: cut out, and still shared")
    yield (
        f"<p>Two views of {elements:,} numbers overlap by half; behind them is a tensor of {behind:,}. "
        f"<code>torch.save</code> writes all of it. Clones are small, but no longer share. "
        "<code>cw.save</code> and <code>cw.trim</code> keep what the views reach, and the sharing.</p>\n"
    )
    spans = [
        ("the first view", 0.0, elements / reach, OURS, f"{elements * _NUMBER:,} B"),
        ("the second view", views.step / reach, elements / reach, OURS, f"{elements * _NUMBER:,} B"),
        ("what they reach together", 0.0, 1.0, OURS, f"{reach * _NUMBER:,} B"),
        (
            f"the tensor behind them, {round(behind / reach):,} times as long",
            0.0,
            1.0,
            TODAY,
            f"{behind * _NUMBER:,} B",
        ),
    ]
    yield '<div class="spans">'
    for name, start, length, colour, size in spans:
        bar = amount_bar(9.9, colour, size) if colour == TODAY else span_bar(start, length, colour, f"{name}: {size}")
        yield f'<div class="span"><div>{safe(name)}</div>{bar}<div class="figure">{size}</div></div>'
    yield "</div>\n"
    largest = max(row.two_views for row in views.rows)
    rows: list[Line] = [
        (
            [
                bar_cell(row.two_views / largest, OURS if row.is_ours else TODAY, f"{row.two_views:,} B", "size"),
                answer(row.is_exact, "same bits"),
                answer(row.is_shared, "still shared"),
            ],
            row.title,
            row.is_ours,
        )
        for row in views.rows
    ]
    yield bar_table("Ways to save views", ("way to save", "file with both views", "same bits", "still shared"), rows)
    yield '<p class="quiet">Still shared: a number written through one view after loading is seen through the other. '
    yield "All .pt files were read by plain torch.load.</p>\n</section>\n"


def training_section(training: Training) -> Iterator[str]:
    """The same net, the same batches, the same weights; another time."""
    rows = training.rows
    seconds = max(row.seconds for row in rows)
    drawn = [Curve(row.title, colour, smoothed(row.steps)) for row, colour in zip(rows, _colours(rows), strict=True)]
    top = 1.05 * max(loss for line in drawn for _, loss in line.points)
    yield section("4", "A small net, trained side by side")
    same = "end with the same weights, bit for bit" if all(row.is_same for row in rows) else "differ in their weights"
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
                    OURS if row.is_ours else TODAY,
                    f"{row.images_a_second:,.0f}/s",
                    "images",
                ),
                figure_cell(f"{row.waited:.1%}", "waiting"),
                figure_cell(f"{row.step_seconds * 1000:.1f} ms", "a step takes"),
                answer(row.is_same, "same weights"),
            ],
            row.title,
            row.is_ours,
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
        yield OURS if row.is_ours else next(others)
