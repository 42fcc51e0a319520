"""What a notebook shows: tables and bars that are whole, need nothing from outside, and do what no name tells them."""

import io
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.common.html import MAX_ROWS, bars, table
from tests.doctor.support.evidences import make_report

EVIL = "</td><script>alert(1)</script><img src=//example.com/x.png onerror=alert(2)>&amp;\x1b[2J"
VOID = {"img", "br", "hr", "meta"}
CHROMIUM = shutil.which("chromium")


class Shown(HTMLParser):
    """HTML, read strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and a file whose names would like to be more than names."""
    path = tmp_path_factory.mktemp("notebook")
    torch.save({EVIL: torch.zeros(1000)[:10], "other": torch.ones(3)}, path / "x.pt")
    samples = [{EVIL: number, "image": torch.full((3, 8, 8), number, dtype=torch.uint8)} for number in range(20)]
    classes = cw.Field(classes=[f"{EVIL}{number}" for number in range(20)])
    cw.pack(samples, path / "x.cordwood", workers=0, progress=False, fields={EVIL: classes})
    return path


def packed(folder: Path) -> cw.Packed:
    samples = [{EVIL: number} for number in range(3)]
    found = cw.pack(samples, folder / "again.cordwood", workers=0, progress=False)
    assert isinstance(found, cw.Packed)
    shutil.rmtree(folder / "again.cordwood")
    return found


def damaged(folder: Path) -> Any:
    shutil.copytree(folder / "x.cordwood", folder / "bad.cordwood", dirs_exist_ok=True)
    (shard,) = (folder / "bad.cordwood").glob("shard-*.cws")
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 1
    shard.write_bytes(data)
    return cw.verify(folder / "bad.cordwood")


def fed(folder: Path) -> cw.Loader:
    loader = cw.Loader(cw.open(folder / "x.cordwood"), 8)
    assert sum(len(batch["image"]) for batch in loader) == 20
    return loader


# What somebody may leave on the last line of a cell -> words that must be seen.
THINGS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "inspect file": (lambda folder: cw.inspect(folder / "x.pt"), ("[10]", "float32", "wasted", "4.0 kB")),
    "inspect store": (lambda folder: cw.inspect(folder / "x.cordwood"), ("image", "[3, 8, 8]", "before", "after")),
    "dataset": (lambda folder: cw.open(folder / "x.cordwood"), ("20 samples in 1 shard", "tensor uint8")),
    "part": (lambda folder: cw.open(folder / "x.cordwood").select("image")[:5], ("5 of 20 samples", "; image")),
    "peek": (lambda folder: cw.peek(io.BytesIO((folder / "x.pt").read_bytes())), ("2 tensors", "[10]", "float32")),
    "packed": (packed, ("again.cordwood", "torch.save", "values", "store")),
    "estimate": (
        lambda folder: cw.pack([{EVIL: 1}] * 9, folder / "no", workers=0, progress=False, limit=3),
        ("dry run", "3 inputs"),
    ),
    "verified": (lambda folder: cw.verify(folder / "x.cordwood"), ("all good",)),
    "damaged": (damaged, ("1 damaged piece", "lost")),
    "salvaged": (
        lambda folder: cw.salvage(damaged(folder).path, folder / "saved.cordwood"),
        ("saved.cordwood", "of 20 samples"),
    ),
    "trimmed": (lambda folder: cw.trim(folder / "x.pt", folder / "y.pt"), ("x.pt -> ", "smaller", "before", "after")),
    "exported": (lambda folder: cw.export(folder / "x.cordwood", folder / "out"), ("20 files",)),
    "loader": (
        lambda folder: cw.Loader(cw.open(folder / "x.cordwood"), 8),
        ("20 samples in 3 batches of 8",),
    ),
    "fed loader": (fed, ("Loader of 20", "epoch 0", "waited for data", "everything else")),
    "stats": (lambda folder: fed(folder).stats(), ("epoch 0", "3 batches, 20 samples", "waited for data", "decoding")),
    "merged": (lambda folder: cw.merge([folder / "x.cordwood"], folder / "m.cordwood"), ("1 shard", "linked")),
}


@pytest.mark.parametrize("name", THINGS)
def test_it_shows_itself(name: str, folder: Path) -> None:
    make, words = THINGS[name]
    shown = Shown(make(folder)._repr_html_())
    assert set(shown.tags) <= {"div", "p", "b", "table", "tr", "th", "td", "ul", "li", "pre", "img"}
    assert {attribute for attribute, _ in shown.attributes} <= {"style", "src", "alt"}
    assert all(
        value.startswith("data:image/png;base64,") for attribute, value in shown.attributes if attribute == "src"
    )
    assert "\x1b" not in shown.words
    for word in words:
        assert word in shown.words


def test_classes_stand_below_pictures(tmp_path: Path) -> None:
    samples = [{"label": number % 2, "image": torch.zeros(3, 8, 8, dtype=torch.uint8)} for number in range(4)]
    fields = {"label": cw.Field(classes=["cat", "<dog>"])}
    cw.pack(samples, tmp_path / "x.cordwood", workers=0, progress=False, fields=fields)
    shown = Shown(cw.open(tmp_path / "x.cordwood")._repr_html_())
    assert shown.tags.count("img") == 4
    assert "cat <dog> cat <dog>" in " ".join(shown.words.split())


def test_a_report_is_a_page_of_its_own() -> None:
    (sources,) = [value for name, value in Shown(make_report()._repr_html_()).attributes if name == "srcdoc"]
    assert make_report().verdict in Shown(sources.removeprefix("<!DOCTYPE html>")).words


def test_bars_are_as_long_as_amounts() -> None:
    shown = Shown(bars([("a", 10, "ten"), ("b", 5, "five"), ("c", 0, "none")]))
    widths = [value.rpartition("width:")[2] for name, value in shown.attributes if "width:" in value]
    assert widths == ["16.000em", "8.000em", "0.000em"]
    assert shown.words.split() == ["a", "ten", "b", "five", "c", "none"]
    assert Shown(bars([])).words == Shown(bars([("nothing", 0, "")])).words.replace("nothing ", "")


def test_a_last_column_without_words_is_left_out() -> None:
    assert Shown(table(("a", "note"), [("1", ""), ("2", "")])).words.split() == ["a", "1", "2"]
    assert Shown(table(("a", "note"), [("1", "!"), ("2", "")])).words.split() == ["a", "note", "1", "!", "2"]


def test_a_file_of_very_many_tensors_is_shown_in_part(tmp_path: Path) -> None:
    torch.save([torch.zeros(1) for _ in range(MAX_ROWS + 50)], tmp_path / "many.pt")
    with cw.peek(tmp_path / "many.pt") as file:
        shown = Shown(file._repr_html_())
    assert shown.tags.count("tr") == 1 + MAX_ROWS
    assert "... 50 more" in shown.words


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
def test_a_browser_shows_all_of_it_and_is_asked_for_nothing_else(folder: Path, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("inspect file", "part", "packed", "peek")
    parts = [THINGS[name][0](folder)._repr_html_() for name in names] + [make_report()._repr_html_()]
    page_file = tmp_path / "notebook.html"
    head = "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>x</title></head>"
    page_file.write_text(f"{head}<body>{''.join(parts)}</body></html>", encoding="utf-8")
    asked: list[str] = []
    with playwright.sync_playwright() as driver:
        # Root in a container has no sandbox to offer; the page is ours.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for event in ("console", "pageerror", "dialog"):
            page.on(event, lambda what: asked.append(str(what)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        pictures = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.complete])")
        lengths = page.evaluate(
            "[...document.querySelectorAll('td div')].map(bar => bar.getBoundingClientRect().width)"
        )
        # A notebook has styles of its own, for <pre> as for all text.
        page.add_style_tag(content="body, body pre { font-family: sans-serif; white-space: normal }")
        fonts = page.evaluate("[...document.querySelectorAll('pre')].map(text => getComputedStyle(text).fontFamily)")
        breaks = page.evaluate("[...document.querySelectorAll('pre')].map(text => getComputedStyle(text).whiteSpace)")
        inside = page.frame_locator("iframe").locator("h1").inner_text()
        browser.close()
    assert [url for url in asked if not url.startswith(("data:", "about:"))] == [page_file.as_uri()]
    assert len(pictures) == 8
    assert all(width > 0 and complete for width, complete in pictures)
    assert lengths[0] > 0
    assert max(lengths) > 100
    assert fonts
    assert all("monospace" in font for font in fonts)
    assert set(breaks) == {"pre-wrap"}
    assert inside.lower() == make_report().verdict
