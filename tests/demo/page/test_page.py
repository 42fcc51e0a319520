"""The demo's page as a file: whole, quiet, and with everything that the demo found."""

import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser

from cordwood.demo import format_page
from cordwood.demo.page.drawing import amount_bar, smoothed
from cordwood.demo.page.parts import times, typed
from cordwood.demo.page.sections import pack_time
from cordwood.demo.report import Step
from tests.demo.reports import make_report

VOID = {"img", "meta"}


class Reader(HTMLParser):
    """What is in a page, and whether all that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def test_it_is_whole_and_asks_for_nothing() -> None:
    page = format_page(make_report())
    read = Reader(page)
    assert page.startswith("<!DOCTYPE html>\n")
    assert "script" not in read.tags
    assert "default-src 'none'; img-src data:;" in page
    assert not re.search(r"https?:|@import|url\(", page)
    pictures = [link for link in read.links if link.startswith("data:")]
    assert len(pictures) == 2
    assert b64decode(pictures[0].removeprefix("data:image/jpeg;base64,")) == make_report().images.photographs[0].jpeg
    # Links are to what is beside the page.
    assert [link for link in read.links if link not in pictures] == [
        "doctor/before.html",
        "doctor/after.html",
        "images",
    ]


def test_it_tells_what_was_found() -> None:
    text = Reader(format_page(make_report())).text
    for told in (
        "10.0\u00d7smaller than torch.save",
        "2.0\u00d7the training speed",
        "1,600 images a second, 800 from the image files",
        "564\u00d7smaller, once trimmed",
        "4.0\u00d7the speed of a sick script100 ms a step become 25.0 ms, by following",
        "The run left 41.0 MB, to look at or to delete (rm -r 'x y/demo')",
        "40 images took 2.0 seconds. Workers, each a new Python that imports torch, needed 1.2 of them to start",
        "From then on it was about 50 images a second.",
        "$ cordwood pack 'x y/demo/images' s.cordwood",
        "slices16,000 B5.00 msyes",
        "a much longer way62 B12.34 msno",
        "a store4,000/sno",
        "the nets differ in their weights",
        "the Loader: done after 0.6 s",
        "The first step is not counted: processes start",
        "some of the waiting is for a core. Packing took 2.0 s, once; a pass over the images takes 0.06 s less",
        "paid for itself after 33 passes. the Loader: 2 threads. ",
        "trimmed7,090 Byesyes",
        "saves 75 ± 2 ms/step (75%), verified by trial",
        "- loader = DataLoader( - data) + import cordwood as cw",
        "predicted 75 ms/step, got 75: within 1%",
        "Same batches before and after, bit for bit: yes.",
        "in 87 seconds. a fast one, 2 cores, Linux; Python 3.12.1, torch 2.9.",
    ):
        assert told in text, told


def test_a_gain_that_may_be_noise_is_told_as_such() -> None:
    report = make_report()
    assert "the noise is as large" not in Reader(format_page(report)).text
    unclear = replace(report, doctored=replace(report.doctored, is_clear=False))
    assert (
        "25.0 ms, by following the doctor's advice; the noise is as large as that" in Reader(format_page(unclear)).text
    )


def test_the_picture_of_a_step_has_the_figures_that_are_compared() -> None:
    report = make_report()
    page = format_page(replace(report, doctored=replace(report.doctored, before_ms=90.0, after_ms=30.0)))
    assert 'aria-label="A step before: 90.0 ms; waiting for data: 80%, ' in page
    assert 'aria-label="A step after: 30.0 ms; waiting for data: 20%, ' in page
    assert "3.0\u00d7the speed of a sick script90.0 ms a step become 30.0 ms" in Reader(page).text


def test_without_advice_there_is_no_cure_to_show() -> None:
    text = Reader(format_page(make_report(closed=False))).text
    assert "cacheable-preprocessing abstained: there is no time for a trial" in text
    assert "It had no advice this time" in text
    assert "sick script" not in text
    assert "bit for bit: yes" not in text


def test_names_are_text_whatever_they_look_like() -> None:
    name = "<script>alert(1)</script>\"'&"
    read = Reader(format_page(make_report(classes=(name,))))
    assert "script" not in read.tags
    assert name in read.text


def test_a_bar_is_as_long_as_its_share() -> None:
    assert 'width="25"' in amount_bar(0.25, "red", "a quarter")
    assert 'width="0.5"' in amount_bar(0.0001, "red", "hardly anything, but seen")
    assert 'class="gap"' not in amount_bar(1.0, "red", "all")
    cut = amount_bar(16.0, "red", "far more")
    assert 'width="100"' in cut
    assert cut.count('class="gap"') == 2


def test_a_curve_has_the_time_and_the_mean_of_the_last_losses() -> None:
    points = smoothed([Step(0.5, 1.5, loss) for loss in (8.0, 4.0, *[0.0] * 8)])
    assert [seconds for seconds, _ in points] == [2.0 * number for number in range(1, 11)]
    assert [loss for _, loss in points] == [8.0, 6.0, 4.0, 3.0, 2.4, 2.0, 12 / 7, 1.5, 0.5, 0.0]


def test_options_are_not_broken_and_nothing_else_is_taken_for_one() -> None:
    assert typed("cordwood pack a-b --goal fast -o 'x'") == (
        'cordwood pack a-b <span class="option">--goal</span> fast <span class="option">-o</span> &#x27;x&#x27;'
    )


def test_times_have_digits_that_tell_something() -> None:
    told = [times(ratio) for ratio in (0.84, 9.97, 99.4, 99.6, 4321.0)]
    assert told == [f"{figure}\u00d7" for figure in ("0.8", "10.0", "99.4", "100", "4,321")]


def test_where_the_time_of_packing_went() -> None:
    packed = make_report().packing.packed
    assert pack_time(packed).endswith("From then on it was about 50 images a second.")
    assert pack_time(replace(packed, resumed_samples=40)).endswith("however many images there are.")
    alone = replace(packed, starting_seconds=0.0)
    assert pack_time(alone) == "40 images took 2.0 seconds, 20 images a second."
