"""Folders of images: class folders, as torchvision's ImageFolder takes them, or no classes at all.

    photos/cat/1.jpg  photos/cat/more/2.png  photos/dog/3.webp    {"image": ..., "label": 0 or 1, "path": "cat/1.jpg"}
    photos/1.jpg  photos/2.jpg                                    {"image": ..., "path": "1.jpg"}

The class is the first folder; classes are numbered in the order of their names' bytes, which is torchvision's. Images
are found by their file names' endings, and files with other endings by their content; what is no image is left out. A
folder without any file is a class without images, so that numbers do not depend on what is missing.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from cordwood.errors import UsageError
from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.files.image_file import ImageReader
from cordwood.sources.files.listing import Listing, list_folder, shown
from cordwood.sources.files.sniff import IMAGES, kind_of, survey

ENDINGS: Final = frozenset(b"jpg jpeg jpe jfif png webp bmp dib gif tif tiff".split())
# What lies beside images and is never one: it need not be opened to know.
_TEXT: Final = frozenset(b"txt csv tsv json jsonl xml md html yaml yml log py ipynb sh pdf zip tar gz pkl".split())
_SPLITS: Final = frozenset(("train", "training", "val", "valid", "validation", "test", "testing", "dev"))


class ImageFolder(Source):
    """A folder of images, with class folders or without."""

    kind = IMAGES
    _labelled: ClassVar[bool] = True  # whether folders at the top are classes

    def __init__(self, listing: Listing, options: SourceOptions) -> None:
        self._listing = listing
        self._options = options
        self._tops = _class_folders(listing) if self._labelled else []
        self._classes = [shown(top) for top in self._tops]
        if len(set(self._classes)) < len(self._classes):
            raise UsageError(f"{str(listing.root)!r:.200}: two class folders have names that look the same: rename one")

    @classmethod
    def recognises(cls, path: Path) -> bool:
        found = survey(path).kinds if path.is_dir() else {}
        return bool(found.get(IMAGES))

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        listing = list_folder(path, _wanted, lambda file: kind_of(file) == IMAGES, follow_links=options.follow_links)
        if not len(listing):
            raise UsageError(f"{str(path)!r:.200} holds no images: found {survey(path)}")
        return cls(listing, options)

    @property
    def count(self) -> int:
        return len(self._listing)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        labels = {folder: number for number, folder in enumerate(self._tops)}
        last = label = -1
        base = ""
        for file in self._listing.files(start):
            if file.folder != last:
                last, folder = file.folder, self._listing.folders[file.folder]
                label = labels.get(folder.partition(b"/")[0], -1)
                base = os.fsdecode(folder) + "/" if folder else ""
            path = base + os.fsdecode(file.name)
            yield Input((path, label) if label >= 0 else (path,), path, *file.facts)

    def reader(self) -> Callable[[Any], Any]:
        return _FolderReader(ImageReader(self._listing.root, self._options))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "path": os.fspath(self._listing.root.resolve()),
            **ImageReader(self._listing.root, self._options).describe(),
        }

    def fingerprint(self) -> str:
        # An empty class moves the numbers of others.
        classes = "".join(f"{len(name)}:{name}" for name in self._classes).encode()
        return hashlib.blake2b(self._listing.fingerprint().encode() + classes, digest_size=16).hexdigest()

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        return {"label": self._classes} if self._classes else {}

    @property
    def absent(self) -> Mapping[str, str]:
        return {} if self._classes else {"label": self._why_unlabelled()}

    def _why_unlabelled(self) -> str:
        return (
            f"there is no 'label' because {str(self._listing.root)!r:.200} has no class folders: put images into them, "
            "as in cat/1.jpg, or pack a manifest with a column 'label'"
        )

    @property
    def notes(self) -> Sequence[str]:
        empty = [name for name, images in zip(self._classes, self._images(), strict=True) if not images]
        told = [f"classes without images: {', '.join(empty)}"] if empty else []
        if self._classes and _SPLITS.issuperset(name.lower() for name in self._classes):
            told.append(f"the classes are {', '.join(self._classes)}: if those are splits, pack each of them by itself")
        return [*self._listing.notes(), *told]

    def _images(self) -> list[int]:
        counts = _images_below(self._listing)
        return [counts[top] for top in self._tops]


class PlainImageFolder(ImageFolder):
    """All images below a folder, whatever their folders are called: no labels. Asked for by its kind only."""

    kind = "unlabelled"
    _labelled = False

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return False

    def _why_unlabelled(self) -> str:
        return f"there is no 'label' because the source's kind is {self.kind!r}, which takes folders for no classes"


class _FolderReader:
    def __init__(self, image: ImageReader) -> None:
        self._image = image

    @property
    def more_frames(self) -> bool:
        return self._image.more_frames

    def __call__(self, handle: tuple[Any, ...]) -> dict[str, Any]:
        sample = {"image": self._image(handle[0])}
        if len(handle) > 1:
            sample["label"] = handle[1]
        sample["path"] = handle[0]
        return sample


def _images_below(listing: Listing) -> dict[bytes, int]:
    """How many images each folder at the top has, in it and below; b"" are those of no folder."""
    counts: dict[bytes, int] = {}
    for number, folder in enumerate(listing.folders):
        top = folder.partition(b"/")[0]
        counts[top] = counts.get(top, 0) + listing.count_in(number)
    return counts


def _class_folders(listing: Listing) -> list[bytes]:
    """The folders at the top that are classes, in order; none if the images lie in no folder."""
    counts = _images_below(listing)
    loose = counts.pop(b"", 0)
    if not any(counts.values()):
        return []
    if loose:
        first = shown(next(listing.files()).name)
        raise UsageError(
            f"{str(listing.root)!r:.200} has {loose} images of no class ({first} ...) beside {len(counts)} folders of "
            f"images: move them into class folders or away; source_kind={PlainImageFolder.kind!r} (--from "
            f"{PlainImageFolder.kind}) packs all of them without labels, and a manifest gives each its own"
        )
    # A folder that holds other things only, such as annotations, is no class.
    return [top for top, images in counts.items() if images or top not in listing.with_others]


def _wanted(name: bytes) -> bool | None:
    ending = name[name.rfind(b".") + 1 :].lower()
    return True if ending in ENDINGS else False if ending in _TEXT else None
