"""The pages of the project, and the fenced blocks in them with what the page says about each.

    for block in blocks(ROOT / "README.md"):
        print(block.line, block.language, block.code)

Words to the tests stand in an HTML comment right above a fence, where readers do not see them:

* ``<!-- not run: needs a GPU -->``: the block is not run, or an output not compared, for that reason.
* ``<!-- saved as: train.py -->``: the block is written to that file, behind what is there, and a command further down
  runs it.
* ``<!-- given: photos/ train.py -->``: what the reader has before; tests lay it out (see ``pageworld.py``).
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATTERNS = (
    *("README*.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("examples/**/*.md", "docs/**/*.md"),
)
_COMMENT = r"(?P<comments>(?:^[ ]*<!--[^\n]*-->\n\n?)*)"
_FENCE = re.compile(
    _COMMENT
    + r"^(?P<indent>[ ]*)(?P<fence>```+|~~~+)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"<!-- *(not run|saved as|given): *(.*?) *-->")
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?(?:\s+\"[^\"]*\")?\)")
_ATTRIBUTE = re.compile(r"<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=\"([^\"#]*)(#[^\"]*)?\"")


@dataclass(frozen=True)
class Block:
    """One fence of a page."""

    page: str
    line: int  # of the fence, counted from 1
    language: str
    code: str
    not_run: str | None = None
    saved_as: str | None = None
    given: tuple[str, ...] = ()
    follows: bool = False  # right behind the block before it, with nothing but its own comment between

    @property
    def place(self) -> str:
        """Where it is, as editors take it."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page, by its path from the root, found anew each time: who adds one need not tell the tests."""
    return sorted({path.relative_to(ROOT).as_posix() for pattern in PATTERNS for path in ROOT.glob(pattern)})


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    found: list[Block] = []
    end_of_last = None
    for match in _FENCE.finditer(text):
        said = dict(_WORD.findall(match["comments"]))
        start = match.start("indent")
        found.append(
            Block(
                page,
                text.count("\n", 0, start) + 1,
                match["language"],
                textwrap.dedent(match["code"]),
                said.get("not run"),
                said.get("saved as"),
                tuple(said.get("given", "").split()),
                end_of_last is not None and not text[end_of_last : match.start()].strip(),
            )
        )
        end_of_last = match.end()
    return found


def without_fences(text: str) -> str:
    """The page's prose: a `#` in a block is no heading, and a bracket in it no link."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """What links into a page may name: its headings, as GitHub writes them."""
    names: set[str] = set(re.findall(r"<a id=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#+ (.+)$", without_fences(text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = 0
        while (numbered := f"{name}-{count}" if count else name) in names:
            count += 1
        names.add(numbered)
    return {f"#{name}" for name in names}


def broken_links(page: str) -> list[str]:
    """Links and pictures of a page that lead nowhere in this checkout; other people's sites are not asked."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    prose = re.sub(r"`[^`\n]*`", "", without_fences(text))
    broken = []
    for link, anchor in [*_LINK.findall(prose), *_ATTRIBUTE.findall(prose)]:
        if "://" in link or link.startswith("mailto:"):
            continue
        target = path.parent / link if link else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link + anchor)
    return broken
