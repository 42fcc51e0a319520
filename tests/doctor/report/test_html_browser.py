"""The HTML report in a real browser: it opens offline, without complaint, on a phone, by night, and on paper."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cordwood.doctor.evidence.findings import CodeLine, Finding
from cordwood.doctor.report.report import Report
from tests.doctor.report.test_html import full_report
from tests.doctor.support.evidences import make_evidence, make_report

CHROMIUM = shutil.which("chromium")
WIDE, PHONE = 1100, 360

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        # Root in a container has no sandbox to offer; the page is ours.
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """A report, opened, with everything that the browser complained of and asked for."""

    def __init__(self, browser: Any, file: Path, width: int = WIDE, scheme: str = "light") -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = file.resolve().as_uri()
        self.page.goto(self.address)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *others: object) -> None:
        self.context.close()

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def views(self) -> Iterator[tuple[int, str]]:
        """The page on a wide screen and on a phone, by day and by night."""
        for width in (WIDE, PHONE):
            self.page.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)
                yield width, scheme

    def ground(self) -> Any:
        """The colour behind everything."""
        return self.value("getComputedStyle(document.body).backgroundColor")


def long_report() -> Report:
    """Long names, many steps, and texts that would like to be more than text."""
    report = full_report()
    source = "loader = DataLoader(dataset, " + ", ".join(f"an_argument_{number}={number}" for number in range(20)) + ")"
    evil = "</script><script>alert(1)</script><img src='//example.com/x.png' onerror='alert(2)'>"
    place = CodeLine("/home/me/" + "a_long_folder/" * 12 + "train.py", 3, evil, source)
    other = make_report(
        [Finding("workers", evil + "word" * 60, f"{source}\n# {evil}", place, 40.0, 3.0, "trial")],
        make_evidence({"wait": 40.0, "forward": 9.0}, steps=2500, jitter=0.3, first_waits=(90.0, 5.0)),
    )
    for part in ("layers", "functions"):
        other.document[part] = report.document[part]
    other.document["layers"][0]["module"] = "encoder.layers." * 9
    other.document["script"] = f"{evil} --data {'x' * 200}"
    return other


def saved(report: Report, folder: Path) -> Path:
    report.save(folder / "report.html")
    return folder / "report.html"


GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}


@pytest.mark.parametrize("make", [full_report, long_report, make_report])
def test_it_opens_without_complaint_and_fits(browser: Any, make: Callable[[], Report], tmp_path: Path) -> None:
    with Page(browser, saved(make(), tmp_path)) as page:
        for width, scheme in page.views():
            assert page.value("document.documentElement.scrollWidth") <= width
            assert page.page.locator("h1").is_visible()
            assert page.ground() == GROUNDS[scheme]
        assert page.value("document.images.length + document.scripts.length") == 0
        assert page.complaints == []
        assert page.requests == [page.address]


def test_what_does_not_fit_can_be_reached_by_scrolling_and_by_keyboard(browser: Any, tmp_path: Path) -> None:
    overflowing = """[...document.querySelectorAll('body *')].filter(element =>
        element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === 'auto')"""
    with Page(browser, saved(long_report(), tmp_path), PHONE) as page:
        assert page.value(f"{overflowing}.length") > 0
        assert page.value(f"{overflowing}.every(element => element.tabIndex === 0)")


def test_text_on_a_phone_is_not_tiny(browser: Any, tmp_path: Path) -> None:
    texts = "[...document.querySelectorAll('p, td, th, span, h1, h2, h3')]"
    sizes = f"{texts}.map(element => parseFloat(getComputedStyle(element).fontSize))"
    with Page(browser, saved(full_report(), tmp_path), PHONE) as page:
        assert min(page.value(sizes)) >= 11


def test_pictures_have_the_size_they_should(browser: Any, tmp_path: Path) -> None:
    with Page(browser, saved(full_report(), tmp_path), PHONE) as page:
        charts = page.value("[...document.querySelectorAll('.chart svg')].map(e => e.getBoundingClientRect().toJSON())")
        assert len(charts) == 3
        assert all(chart["width"] > 200 and chart["height"] > 80 for chart in charts)
        bars = page.value("[...document.querySelectorAll('.bar rect')].map(e => e.getBoundingClientRect().width)")
        phases = full_report().document["phases"]
        expected = [phase["share"] for phase in phases.values()]
        assert [bar / sum(bars) for bar in bars] == pytest.approx(expected, abs=0.01)


def test_it_prints(browser: Any, tmp_path: Path) -> None:
    with Page(browser, saved(full_report(), tmp_path), scheme="dark") as page:
        page.page.emulate_media(media="print")
        assert page.ground() == GROUNDS["light"]
        assert page.page.pdf().startswith(b"%PDF")
