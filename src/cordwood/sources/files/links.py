"""Judges symbolic links below the folder of a source: which of them are files of it, and what is wrong with the others.

    links = Links(Path("photos"), follow_links=False)
    links.wrong("cat/1.jpg")        # None, or "it is a link to '/data/1.jpg', which is outside of 'photos': ..."

A link that is wrong is an input that fails, like a file that cannot be decoded. It is judged when the files are listed,
and again when it is read.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_FOLDERS: Final = 1 << 17  # that are remembered to be inside
NOTHING: Final = (-1, -1)  # the size and date of what cannot be read


class Links:
    """The links below a folder. `follow_links` takes those to files that are elsewhere."""

    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root = os.fspath(root)
        self._follow = follow_links
        self._home = os.path.realpath(root)
        self._inside: set[str] = set()  # folders that were judged

    def look(self, path: str) -> tuple[int, int]:
        """Size and date of a file; `NOTHING` if it cannot be read, which is reported when it is to be."""
        place = self._place(path)
        try:
            status = os.lstat(place)
            if self.wrong(path, stat.S_ISLNK(status.st_mode)) is not None:
                return NOTHING
            if stat.S_ISLNK(status.st_mode):
                status = os.stat(place)  # noqa: PTH116 - a Path for each of millions of files costs more than all else
        except OSError:
            return NOTHING
        return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else NOTHING

    def wrong(self, path: str, is_link: bool | None = None) -> str | None:
        """Why a path must not be read, or leads to nothing, because of a link in it."""
        if path.startswith("/"):  # the caller has allowed absolute paths, which lead anywhere
            return None
        why = self._folder_wrong(path)
        if is_link is None:
            is_link = os.path.islink(self._place(path))  # noqa: PTH114
        return self._link_wrong(path) if why is None and is_link else why

    def _folder_wrong(self, path: str) -> str | None:
        """Whether a link on the way to a path leads out of the folder."""
        folder = path.rpartition("/")[0]
        if self._follow or folder in self._inside:
            return None
        target = os.path.realpath(self._place(folder))
        if not self._holds(target):
            return f"its folder leads by a link to {_shown(target)}, {self._outside()}"
        if len(self._inside) >= _MOST_FOLDERS:
            self._inside.clear()
        self._inside.add(folder)
        return None

    def _link_wrong(self, path: str) -> str | None:
        place = self._place(path)
        to = f"it is a link to {_shown(os.readlink(place))}"  # noqa: PTH115
        try:
            mode = os.stat(place).st_mode  # noqa: PTH116
        except FileNotFoundError:
            return f"{to}, which does not exist: put the file there, or remove the link"
        except OSError as error:
            if error.errno == errno.ELOOP:
                return f"{to}, part of a loop of links: remove the link"
            return f"{to}, which cannot be read ({error.strerror}): remove the link, or make its target readable"
        target = os.path.realpath(place)
        if stat.S_ISDIR(mode):
            return f"{to}, {self._what_folder(place, target)}: links to folders are not followed, remove the link"
        if not stat.S_ISREG(mode):
            return f"{to}, which is no plain file: remove the link"
        if self._follow or self._holds(target):
            return None
        return f"it is a link to {_shown(target)}, {self._outside()}"

    def _what_folder(self, place: str, target: str) -> str:
        if target == self._home:
            return "the folder itself that is packed (a loop)"
        around = os.path.realpath(os.path.dirname(place))  # noqa: PTH120
        if around == target or around.startswith(target.rstrip("/") + "/"):
            return "a folder that the link lies in (a loop)"
        return "which is a folder"

    def _outside(self) -> str:
        return (
            f"which is outside of {_shown(self._root)}: if that is meant, allow it with follow_links=True "
            "(--follow-links), or remove the link"
        )

    def _holds(self, target: str) -> bool:
        return f"{target}/".startswith(self._home.rstrip("/") + "/")

    def _place(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._root}/{path}"


def shown_path(path: str) -> str:
    """A path for messages, which may not be text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _shown(path: str) -> str:
    return f"{shown_path(path)!r:.200}"
