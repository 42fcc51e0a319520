"""The fifth act: small views of a large tensor, saved in every way, and written through after loading.

A file is to hold the bytes that its views see, and the views are to share them as before. Both are found out from the
files: their sizes, and a number that is written through one view and looked for in the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from cordwood.demo.acts.kept import Progress, same_bits
from cordwood.demo.report import ViewRow
from cordwood.demo.report import Views as SavedViews
from cordwood.tensors import load, save, trim

BEHIND = 1_000_000  # elements of the tensor that the views look at
ELEMENTS = 1_000  # of a view
STEP = 500  # from the start of one view to that of the next: half of it is shared

Views = list[torch.Tensor]


@dataclass(frozen=True)
class ViewWay:
    """One way to save views, and to load them again."""

    title: str
    name: str  # of its files
    suffix: str
    write: Callable[[Views, Path], object]
    read: Callable[[Path], Views]
    is_ours: bool = True
    was_trimmed: bool = False


def view_ways() -> list[ViewWay]:
    """In the order in which people meet them."""
    return [
        ViewWay("torch.save(views)", "torch-save", ".pt", torch.save, torch.load, is_ours=False),
        ViewWay("torch.save(clones of views)", "torch-clones", ".pt", save_clones, torch.load, is_ours=False),
        ViewWay('cw.save(views, "x.pt")', "cw-save", ".pt", save, torch.load),
        ViewWay('cw.save(views, "x.cord")', "cw-save", ".cord", save, load),
        ViewWay("cw.trim of torch.save's file", "cw-trim", ".pt", save_and_trim, torch.load, was_trimmed=True),
    ]


def save_clones(views: Views, path: Path) -> None:
    """The usual advice: every clone owns its bytes, and shares them with nobody."""
    torch.save([view.clone() for view in views], path)


def save_and_trim(views: Views, path: Path) -> None:
    """For files that are there already."""
    torch.save(views, path)
    trim(path, in_place=True)


def save_views(folder: Path, progress: Progress) -> SavedViews:
    """Save one view, and two that overlap, in every way below ``folder``, and look at what comes back."""
    folder.mkdir()
    rows = []
    ways = view_ways()
    for way in ways:
        behind = torch.zeros(BEHIND)
        one, two = [behind[:ELEMENTS]], [behind[:ELEMENTS], behind[STEP : STEP + ELEMENTS]]
        paths = [folder / f"{way.name}-{word}{way.suffix}" for word in ("one-view", "two-views")]
        for views, path in zip((one, two), paths, strict=True):
            way.write(views, path)
        sizes = [path.stat().st_size for path in paths]
        exact = all(same_views(views, way.read(path)) for views, path in zip((one, two), paths, strict=True))
        shared = is_shared(way.read(paths[1]))
        rows.append(ViewRow(way.title, sizes[0], sizes[1], exact, shared, way.is_ours, way.was_trimmed))
        progress("saving views", len(rows), len(ways))
    return SavedViews(rows, ELEMENTS, STEP, BEHIND)


def same_views(saved: Views, loaded: Views) -> bool:
    """Whether all come back with the same bits."""
    return all(same_bits(one, other) for one, other in zip(saved, loaded, strict=True))


def is_shared(views: Views) -> bool:
    """Whether a number written through the first view is seen by the second, which begins inside of it."""
    first, second = views
    written = float(second[0]) + 1
    first[STEP] = written
    return float(second[0]) == written
