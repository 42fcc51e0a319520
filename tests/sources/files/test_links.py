"""Links below a folder: what they are, in words."""

import os
from pathlib import Path

import pytest

from cordwood.sources.files.links import NOTHING, Links

OUTSIDE = "outside of .*photos.*: if that is meant, allow it with follow_links=True"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files, a folder that a link leads out of, and files beside it."""
    root = tmp_path / "photos"
    for place in (root / "a" / "1.x", tmp_path / "photos-2" / "1.x", tmp_path / "secret.x"):
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_text("12345")
    (root / "out").symlink_to("../photos-2")
    os.mkfifo(root / "pipe")
    return root


CASES = {
    "../secret.x": f"it is a link to '.*/secret.x', which is {OUTSIDE}",
    "../photos-2/1.x": OUTSIDE,
    "out/1.x": OUTSIDE,
    "nothing": "it is a link to 'nothing', which does not exist: put the file there, or remove the link",
    "../nothing": "it is a link to '../nothing', which does not exist",
    "link.x": "it is a link to 'link.x', part of a loop of links",
    "other": "it is a link to 'other', part of a loop of links",
    ".": r"it is a link to '\.', the folder itself that is packed \(a loop\): links to folders are not followed",
    "../photos": r"the folder itself that is packed \(a loop\)",
    "..": r"it is a link to '\.\.', a folder that the link lies in \(a loop\)",
    "/": r"it is a link to '/', a folder that the link lies in \(a loop\)",
    "a": "it is a link to 'a', which is a folder: links to folders are not followed",
    "../photos-2": "which is a folder",
    "pipe": "which is no plain file",
    "a/1.x/2": "which cannot be read",
}


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("target", CASES)
def test_what_is_wrong(root: Path, target: str, follow: bool) -> None:
    (root / "link.x").symlink_to(target)
    (root / "other").symlink_to("link.x")
    links = Links(root, follow)
    if follow and OUTSIDE in CASES[target]:
        assert links.wrong("link.x") is None
        assert links.look("link.x")[0] == 5
    else:
        with pytest.raises(ValueError, match=CASES[target]):
            raise ValueError(links.wrong("link.x"))
        assert links.look("link.x") == NOTHING


def test_below_the_folder_a_loop_is_told_from_another_folder(root: Path) -> None:
    (root / "a" / "up").symlink_to("../a")
    (root / "a" / "beside").symlink_to("../out")
    links = Links(root, False)
    assert "a folder that the link lies in (a loop)" in str(links.wrong("a/up"))
    assert "which is a folder" in str(links.wrong("a/beside"))


@pytest.mark.parametrize("follow", [False, True])
def test_a_folder_on_the_way_that_leads_out(root: Path, follow: bool) -> None:
    links = Links(root, follow)
    for _ in range(2):
        wrong = links.wrong("out/1.x")
        assert (wrong is None) == follow
        assert follow or "its folder leads by a link to" in str(wrong)
        assert (links.look("out/1.x") == NOTHING) != follow


def test_what_is_right(root: Path) -> None:
    (root / "link.x").symlink_to("a/1.x")
    links = Links(root, False)
    assert [links.wrong(path) for path in ("a/1.x", "link.x", "missing/1.x", "pipe")] == [None] * 4
    assert links.look("link.x") == links.look("a/1.x") == (5, (root / "a" / "1.x").stat().st_mtime_ns)
    assert links.look("missing/1.x") == links.look("pipe") == NOTHING


def test_a_folder_that_is_reached_by_a_link_itself(root: Path) -> None:
    (root / "link.x").symlink_to(root / "a" / "1.x")
    (root.parent / "again").symlink_to("photos")
    assert Links(root.parent / "again", False).wrong("link.x") is None


def test_many_folders_are_forgotten_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.sources.files.links._MOST_FOLDERS", 2)
    links = Links(root, False)
    for name in "bcdef":
        assert links.wrong(f"{name}/1.x") is None
    assert len(links._inside) <= 2
