"""The pages' examples run and print what the pages say, and their links lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES_WITH_EXAMPLES = [
    "README.md",
    "docs/codecs.md",
    "docs/doctor.md",
    "docs/extending.md",
    "docs/feed.md",
    "docs/format/order.md",
    "docs/pack.md",
    "docs/store.md",
    "docs/tensors.md",
]
PAGES = [*PAGES_WITH_EXAMPLES, "CONTRIBUTING.md", "docs/format/packing.md", "docs/install.md", "docs/rules/README.md"]
# An example, and what it prints, if the page tells that in a block of text right behind it.
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES)
def test_the_examples_run_one_after_the_other(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = EXAMPLE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert examples
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for code, told in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if told:
            assert [line.rstrip() for line in printed.getvalue().splitlines()] == told.splitlines()


def anchors(page: Path) -> set[str]:
    """What links into a page may name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = []
    for link, anchor in LINK.findall(text):
        target = (ROOT / page).parent / link if link else ROOT / page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link + anchor)
    assert missing == []
