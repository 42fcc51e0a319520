"""The demo's page in a real browser: it opens offline, without complaint, on a phone, by night, and on paper."""

from pathlib import Path
from typing import Any

import pytest

from cordwood.demo import format_page
from tests.demo.reports import make_report
from tests.doctor.report.test_html_browser import CHROMIUM, GROUNDS, PHONE, WIDE, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(
        format_page(make_report(classes=("coffee", "a_class_with_a_long_name", "x" * 60))), encoding="utf-8"
    )
    return path


def test_it_opens_without_complaint_and_fits(browser: Any, file: Path) -> None:
    texts = "[...document.querySelectorAll('p, td, th, span, li, h1, h2, h3, pre')]"
    with Page(browser, file) as page:
        for width, scheme in page.views():
            assert page.value("document.documentElement.scrollWidth") <= width
            assert page.ground() == GROUNDS[scheme]
            assert min(page.value(f"{texts}.map(element => parseFloat(getComputedStyle(element).fontSize))")) >= 11
        assert page.value("[...document.images].map(image => image.naturalWidth)") == [160] * 3
        assert page.value("document.scripts.length") == 0
        assert page.complaints == []
        assert [request for request in page.requests if not request.startswith("data:")] == [page.address]


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_pictures_say_what_the_figures_say(browser: Any, file: Path, width: int) -> None:
    report = make_report()
    with Page(browser, file, width) as page:

        def widths(selector: str) -> list[float]:
            found: list[float] = page.value(
                f"[...document.querySelectorAll({selector!r})].map(element => element.getBoundingClientRect().width)"
            )
            return found

        # A step before and after the cure, as long as they took.
        bars = widths("svg.stack rect")
        phases = [*report.doctored.before_phases.values(), *report.doctored.after_phases.values()]
        assert [bar / sum(bars[:4]) for bar in bars] == pytest.approx([ms / 100 for ms in phases], abs=0.01)
        # The Loader's curve and strip are over at half of the time.
        files, tensors, ours = widths("polyline.curve")
        assert files == tensors
        assert ours / files == pytest.approx(0.5, abs=0.03)
        everything, working, waiting = widths(".strips svg:last-child, .strips svg:last-child path")
        assert working / everything == pytest.approx(0.5, abs=0.03)
        assert waiting / everything == pytest.approx(0.5, abs=0.05)
        # Of the ways to keep a sample, in turn: their sizes, cut at the first, and their times.
        cells = widths('[aria-label="Ways to keep a sample"] svg rect')
        rows = report.compared.rows
        sizes = [min(1.0, report.compared.share(row)) for row in rows]
        assert [cell / cells[0] for cell in cells[::2]] == pytest.approx(sizes, abs=0.01)
        slowest = max(row.read_seconds for row in rows)
        longest = max(cells[1::2])
        assert [cell / longest for cell in cells[1::2]] == pytest.approx(
            [row.read_seconds / slowest for row in rows], abs=0.01
        )


def test_it_prints(browser: Any, file: Path) -> None:
    with Page(browser, file, scheme="dark") as page:
        page.page.emulate_media(media="print")
        assert page.ground() == GROUNDS["light"]
        assert page.page.pdf().startswith(b"%PDF")


def test_without_advice_it_opens_as_well(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(format_page(make_report(closed=False)), encoding="utf-8")
    with Page(browser, file, PHONE) as page:
        assert page.complaints == []
        assert page.value("document.documentElement.scrollWidth") <= PHONE
        assert page.value("document.querySelectorAll('.stack').length") == 1
