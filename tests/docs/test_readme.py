"""Every page keeps its word: its blocks run, or say why not, and its links lead somewhere.

How a page speaks to this test is told in `pageblocks.py`, what is not run for all pages alike in `pageruns.py`.
"""

import gc
import re
from pathlib import Path

import pytest

from tests.docs.support.pageblocks import ROOT, Block, anchors, blocks, broken_links, pages, without_fences
from tests.docs.support.pageruns import PageRun, why_not_run

# The same code as in another page, which is run; that it is the same is checked.
TWINS = {"README.zh-CN.md": "README.md"}
LONGEST_README = 250


# Pages that pack folders or train for several seconds.
LONG_PAGES = ("docs/doctor.md", "docs/pack.md", "docs/store.md", "docs/tour.md", "docs/recipes/")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.startswith(LONG_PAGES) else [])
        for page in pages()
        if page not in TWINS
    ],
)
def test_the_blocks_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    with PageRun(tmp_path) as run:
        for block in blocks(page):
            run.do(block)
    # What the page leaves in cycles may own threads, which a process that a later page forks cannot end.
    gc.collect()


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(page) == []


def test_every_kind_of_page_is_found() -> None:
    found = set(pages())
    assert {"README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs/pack.md", "docs/format/store.md"} <= found


def test_the_readme_and_its_twin_have_the_same_code_and_the_same_parts() -> None:
    for twin, original in TWINS.items():
        ours, theirs = blocks(original), blocks(twin)
        assert [told_apart(block) for block in ours] == [told_apart(block) for block in theirs]
        texts = [without_fences((ROOT / page).read_text(encoding="utf-8")) for page in (original, twin)]
        heads, items, links = zip(*(parts(text) for text in texts), strict=True)
        assert heads[0] == heads[1]
        assert items[0] == items[1]
        assert links[0] == links[1]


def told_apart(block: Block) -> tuple[object, ...]:
    """A block without what a translation changes: the comments in it, and the reason why it is not run."""
    code = re.sub(r" *# (?!fmt:).*", "", block.code) if block.language in {"python", "sh"} else block.code
    return block.language, code, block.not_run is None, block.saved_as, block.given


def parts(text: str) -> tuple[list[int], int, list[str]]:
    """Levels of the headings, number of list items, and where links lead, but for those to the other language."""
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    return (
        [len(level) for level in re.findall(r"^(#+) ", text, re.MULTILINE)],
        len(re.findall(r"^\* ", text, re.MULTILINE)),
        [link for link in links if not link.startswith("README")],
    )


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readme_stays_short(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) < LONGEST_README


def test_the_picture_is_the_same_in_both_languages() -> None:
    pictures = ROOT / "docs" / "pictures"
    without_words = [
        re.sub(r">[^<>]+</(text|title)>", r"></\1>", (pictures / name).read_text(encoding="utf-8"))
        for name in ("flow.svg", "flow.zh-CN.svg")
    ]
    assert without_words[0] == without_words[1]


# The test itself: what is wrong with a page is seen.

PAGE = """\
# A page
<!-- given: list.csv -->
```python
from pathlib import Path
print(Path("list.csv").read_text().splitlines()[0])
```

```text
path,label
```

<!-- saved as: hello.py -->
```python
print("hello")
```

```sh
python hello.py     # what it says
cordwood --version > version
```

```text
hello
```

<!-- not run: it would not end -->
```python
while True: pass
```

```toml
[tool]
```
"""


def run_page(text: str, folder: Path, page: str = "docs/page.md") -> PageRun:
    with PageRun(folder) as run:
        for block in blocks(page, text):
            run.do(block)
    return run


def test_a_page_that_keeps_its_word(tmp_path: Path) -> None:
    run = run_page(PAGE, tmp_path)
    assert run.ran == 2
    assert (run.folder / "version").read_text().startswith("cordwood ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("path,label\n```", "path,number\n```"),
        ('print("hello")', 'print("good bye")'),
        ('print("hello")', 'print("hello"'),
        ("python hello.py ", "python nobody.py "),
        ("python hello.py ", "false "),
        ("python hello.py     # what it says", "echo hello"),
        ("cordwood --version", "cordwood --versoin"),
        ("<!-- not run: it would not end -->\n```python\nwhile True: pass", "```py\nprint(1)"),
        ("```toml\n[tool]", "```toml\n[tool"),
        ("```toml\n[tool]", "```json\n{"),
        ("```toml\n[tool]", "```ruby\nputs 1"),
    ],
)
def test_a_page_that_does_not(before: str, after: str, tmp_path: Path) -> None:
    assert PAGE.count(before) == 1
    with pytest.raises((AssertionError, SyntaxError, ValueError)):
        run_page(PAGE.replace(before, after), tmp_path)


def test_commands_find_what_a_reader_has_and_leave_the_pages_own_folder_alone(tmp_path: Path) -> None:
    run = run_page(
        "```sh\ncordwood trim checkpoints/ --in-place\ncordwood pack list.csv two.cordwood --workers 0\n```\n", tmp_path
    )
    assert list(run.folder.iterdir()) == []
    assert (run.given / "two.cordwood" / "store.json").exists()


def test_an_exit_code_must_be_told(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with pytest.raises(AssertionError, match="ended with 2"):
        run_page("```sh\ncordwood verify nothing.cordwood\n```\n", tmp_path / "one")
    run_page("```sh\ncordwood verify nothing.cordwood  # exit code 2: there is none\n```\n", tmp_path / "two")


def test_commands_that_are_not_run_are_told_by_how_they_begin() -> None:
    assert why_not_run("pip install .  # anything") == "asks the network"
    assert why_not_run("make") is not None
    assert why_not_run("python examples/full_disk.py") is not None
    assert why_not_run("cordwood demo --images 20") is not None
    assert why_not_run("cordwood pack photos/ make.cordwood") is None
    assert why_not_run("makeup") is None


def test_anchors_are_those_of_github() -> None:
    text = "# A `b`, c!\n## Same\n## Same\n## 安装, 一步\n```sh\n# no heading\n```\n"
    assert anchors(text) == {"#a-b-c", "#same", "#same-1", "#安装-一步"}
