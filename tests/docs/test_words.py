"""Words of the project's own: whoever reads a page has been told what they mean."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
HOUSE = re.compile(r"\b(?:the|a) house\b|\brooms\b|\b(?:each|every|this|one) room\b", re.IGNORECASE)


@pytest.mark.parametrize("page", sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")))
def test_the_house_is_where_it_is_introduced(page: str) -> None:
    """CONTRIBUTING.md and design.md call the package a house; nobody has told that to readers of other pages."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if page == "design.md":
        before, introduced, _ = text.partition("Think of the package as a house: its folders are the rooms")
        assert introduced
        text = before.replace("\n## The house\n", "")  # the heading that the sentence stands under
    assert HOUSE.findall(text) == []
