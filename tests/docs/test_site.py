"""The site of `make docs`: built strictly, whole, and without asking anybody else for anything."""

import contextlib
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install '.[docs]'")
pytest.importorskip("material", reason="MkDocs Material is not installed: pip install '.[docs]'")

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = shutil.which("chromium")
PHONE = 360
# What a browser fetches by itself when it opens a page.
FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"")


def build(folder: Path, root: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    # Not --quiet: warnings that are not told would not stop it.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    # Material tells of its successor on every build.
    return subprocess.run(
        command, cwd=root, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    renamed = {page.with_name("index") if page.name == "README" else page for page in pages}
    assert built == {*renamed, Path("404")}


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    asked = {
        address
        for page in site.rglob("*.html")
        for found in FETCHED.findall(page.read_text(encoding="utf-8"))
        for address in found
        if "//" in address
    }
    asked |= {
        address
        for sheet in site.rglob("*.css")
        for address in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text("utf-8"))
    }
    assert asked == set()


def test_a_broken_link_or_a_forgotten_page_stops_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Start\n\n[nowhere](missing.md), [no such place](#missing)\n", encoding="utf-8")
    (docs / "forgotten.md").write_text("# Not in the navigation\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    before, _, _ = settings.partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(before + "\nnav:\n  - index.md\n", encoding="utf-8")
    done = build(tmp_path / "site", tmp_path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert all(word in said for word in ("missing.md", "#missing", "forgotten.md"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
def test_pages_open_in_a_browser_and_the_search_finds(address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    complaints: list[str] = []
    asked: list[str] = []
    with (
        playwright.sync_playwright() as driver,
        contextlib.closing(driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])) as browser,
    ):
        page = browser.new_page(viewport={"width": PHONE, "height": 740})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "cli", "benchmarks"):
            page.goto(f"{address}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, name
            assert broken_pictures(page) == []
        page.set_viewport_size({"width": 1280, "height": 900})
        # The second is a word that the page has inside of code only: `cw.augment.RandomResizedCrop(224)`.
        for word, found in (("salvage", "store.html"), ("RandomResizedCrop", "image-folder.html")):
            page.goto(f"{address}/index.html?q={word}")  # typing would be lost before the page's script is ready
            page.wait_for_selector(f".md-search-result__item a[href*='{found}']", state="attached")
    assert complaints == []
    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()


def broken_pictures(page: Any) -> list[str]:
    shown: list[str] = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
    return shown
