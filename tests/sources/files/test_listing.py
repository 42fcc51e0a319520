"""Listings: order, memory, what is passed over, and what is refused."""

import os
from pathlib import Path

import pytest

from cordwood.errors import StorageError, UsageError
from cordwood.sources.files.listing import Listing, list_folder


def listed(root: Path) -> Listing:
    return list_folder(root, lambda name: True, lambda path: True)


def paths(listing: Listing, start: int = 0) -> list[str]:
    return [
        os.fsdecode(os.path.join(listing.folders[file.folder], file.name))  # noqa: PTH118 - of bytes
        for file in listing.files(start)
    ]


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def torchvision_order(root: Path) -> list[str]:
    """The order of torchvision's `make_dataset`: class by class, folders by their paths, files by their names."""
    found = []
    for top in sorted(entry.name for entry in root.iterdir() if entry.is_dir()):
        for folder, _, names in sorted(os.walk(root / top, followlinks=True)):
            found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]  # noqa: PTH118
    return found


NAMES = ["a/9.x", "a/c/10.x", "a-b/1.x", "a/c-d/2.x", "a/c/e/3.x", "B/4.x", "a/10.x", "ä/5.x", "a/c/2.x", "z/é.x"]


class TestOrder:
    def test_that_of_torchvision(self, tmp_path: Path) -> None:
        write(tmp_path, *NAMES)
        assert paths(listed(tmp_path)) == torchvision_order(tmp_path)
        assert len(listed(tmp_path)) == len(NAMES)

    def test_from_any_number_on(self, tmp_path: Path) -> None:
        write(tmp_path, *NAMES)
        listing = listed(tmp_path)
        whole = paths(listing)
        for start in range(len(NAMES) + 2):
            assert paths(listing, start) == whole[start:]

    def test_sizes_and_dates_are_those_of_the_files(self, tmp_path: Path) -> None:
        write(tmp_path, *NAMES)
        for path, file in zip(paths(listed(tmp_path)), listed(tmp_path).files(), strict=True):
            status = (tmp_path / path).stat()
            assert (file.size, file.stamp) == (status.st_size, status.st_mtime_ns)

    def test_folders_without_files_are_there(self, tmp_path: Path) -> None:
        write(tmp_path, "b/1")
        (tmp_path / "a").mkdir()
        listing = listed(tmp_path)
        assert listing.folders == [b"", b"a", b"b"]
        assert [listing.count_in(number) for number in range(3)] == [0, 0, 1]

    def test_names_that_are_no_text(self, tmp_path: Path) -> None:
        place = os.fsencode(tmp_path) + b"/\xff\xfe.x"
        with open(place, "w") as file:  # noqa: PTH123 - of bytes
            file.write("1")
        (file_found,) = listed(tmp_path).files()
        assert file_found.name == b"\xff\xfe.x"


class TestFingerprint:
    def test_is_the_same_for_the_same_files(self, tmp_path: Path) -> None:
        write(tmp_path, *NAMES)
        assert listed(tmp_path).fingerprint() == listed(tmp_path).fingerprint()

    @pytest.mark.parametrize("change", ["size", "date", "name", "folder", "one more", "one less"])
    def test_changes_with_everything(self, tmp_path: Path, change: str) -> None:
        write(tmp_path, "a/1", "a/2", "b/3")
        before = listed(tmp_path).fingerprint()
        file = tmp_path / "a" / "2"
        status = file.stat()
        match change:
            case "size":
                file.write_text("a longer text")
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            case "date":
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
            case "name":
                file.rename(tmp_path / "a" / "4")
            case "folder":
                file.rename(tmp_path / "b" / "2")
            case "one more":
                write(tmp_path, "a/3")
            case "one less":
                file.unlink()
        assert listed(tmp_path).fingerprint() != before

    def test_a_name_cannot_pass_for_two(self, tmp_path: Path) -> None:
        write(tmp_path, "one/ab", "one/c", "two/a", "two/bc")
        for folder in ("one", "two"):
            for name in (tmp_path / folder).iterdir():
                name.write_text("x")
                os.utime(name, ns=(1, 1))
        assert listed(tmp_path / "one").fingerprint() != listed(tmp_path / "two").fingerprint()


class TestPassedOver:
    def test_what_systems_leave_behind(self, tmp_path: Path) -> None:
        write(tmp_path, "1.x", ".DS_Store", "Thumbs.db", "._1.x", ".git/config", "__MACOSX/1.x", "a/desktop.ini")
        listing = list_folder(tmp_path, lambda name: None, lambda path: True)
        assert paths(listing) == ["1.x"]
        assert listing.notes() == []

    def test_pipes_are_not_opened_and_told_of(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.x")
        write(tmp_path, "1.x")
        listing = list_folder(tmp_path, lambda name: None, lambda path: bool(path.read_text()))
        assert paths(listing) == ["1.x"]
        assert listing.notes() == ["left out, neither file nor folder: pipe.x"]

    def test_the_unwanted_is_counted_and_the_first_are_named(self, tmp_path: Path) -> None:
        write(tmp_path, "1.x", *(f"{number}.y" for number in range(5)))
        listing = list_folder(tmp_path, lambda name: name.endswith(b".x"), lambda path: True)
        (note,) = listing.notes()
        assert note.startswith("left out, of another kind: ")
        assert note.endswith(" and 2 more")

    def test_content_is_asked_where_the_name_does_not_tell(self, tmp_path: Path) -> None:
        write(tmp_path, "1.x", "2.y")
        listing = list_folder(tmp_path, lambda name: None, lambda path: path.read_text() == "2.y")
        assert paths(listing) == ["2.y"]


class TestLinks:
    def test_within_the_folder_a_link_is_a_file(self, tmp_path: Path) -> None:
        write(tmp_path, "a/1.x")
        (tmp_path / "b.x").symlink_to("a/1.x")
        assert paths(listed(tmp_path)) == ["b.x", "a/1.x"]

    def test_the_folder_itself_may_be_a_link(self, tmp_path: Path) -> None:
        write(tmp_path, "real/1.x")
        (tmp_path / "real" / "2.x").symlink_to(tmp_path / "real" / "1.x")
        (tmp_path / "link").symlink_to("real")
        assert paths(listed(tmp_path / "link")) == ["1.x", "2.x"]

    @pytest.mark.parametrize("target", ["../secret.txt", "/etc/passwd", "..", ".", "a", "nothing", "link.x"])
    def test_what_cannot_be_read_is_listed_without_size_and_date(self, tmp_path: Path, target: str) -> None:
        root = tmp_path / "photos"
        write(root, "a/1.x", "z.x")
        write(tmp_path, "secret.txt")
        (root / "link.x").symlink_to(target)
        listing = listed(root)
        assert paths(listing) == ["link.x", "z.x", "a/1.x"]
        assert [file.facts == (None, None) for file in listing.files()] == [True, False, False]
        assert [listing.count_in(folder) for folder in (0, 1)] == [1, 1]
        before = listing.fingerprint()
        (root / "link.x").unlink()
        write(root, "link.x")
        assert listed(root).fingerprint() != before

    def test_one_that_is_not_wanted_by_its_name_is_left_out(self, tmp_path: Path) -> None:
        write(tmp_path, "1.x")
        (tmp_path / "notes.txt").symlink_to("nothing")
        listing = list_folder(tmp_path, lambda name: name.endswith(b".x"), lambda path: True)
        assert paths(listing) == ["1.x"]
        assert listing.notes() == ["left out, of another kind: notes.txt"]

    def test_out_of_the_folder_if_that_is_allowed(self, tmp_path: Path) -> None:
        root = tmp_path / "photos"
        write(root, "a/1.x")
        write(tmp_path, "elsewhere/2.x")
        (root / "link.x").symlink_to("../elsewhere/2.x")
        listing = list_folder(root, lambda name: True, lambda path: True, follow_links=True)
        assert paths(listing) == ["link.x", "a/1.x"]
        status = (tmp_path / "elsewhere" / "2.x").stat()
        first = next(listing.files())
        assert (first.size, first.stamp) == (status.st_size, status.st_mtime_ns)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    write(tmp_path, "1.x")
    with pytest.raises(UsageError, match="is no folder"):
        listed(tmp_path / "1.x")


def test_a_folder_that_vanishes_is_a_matter_of_storage(tmp_path: Path) -> None:
    write(tmp_path, "a/1.x")
    (tmp_path / "b").mkdir()

    def take_away(name: bytes) -> bool:
        (tmp_path / "b").rmdir()
        return True

    with pytest.raises(StorageError, match="'b': the folder cannot be listed: No such file"):
        list_folder(tmp_path, take_away, lambda path: True)


def test_a_file_that_vanishes_is_a_matter_of_storage(tmp_path: Path) -> None:
    write(tmp_path, "a/1.x")

    def take_away(name: bytes) -> bool:
        (tmp_path / "a" / "1.x").unlink()
        return True

    with pytest.raises(StorageError, match=r"a/1\.x: No such file"):
        list_folder(tmp_path, take_away, lambda path: True)
