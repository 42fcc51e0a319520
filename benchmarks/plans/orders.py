"""Samples in orders that mislead a writer that looks at the first ones only.

for case in first_table(settings):
    case.rows                    # in the unlucky order: first those of one kind, then the rest
    case.shuffled()              # the same samples in random order
further_orders(settings)         # clustered, in blocks, growing, merged, drawn
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from benchmarks.data.photographs import Pixels, load_photographs, normalise, open_sources
from benchmarks.data.synthetic import masks, screenshots
from benchmarks.data.text import token_ids
from benchmarks.harness.outcome import Settings
from benchmarks.harness.packages import PackageCache, need

Rows = Sequence[Any]  # arrays, or texts

CLASSES = 30  # of the folder of photographs; each is one part of a picture
PARTS = 3  # of a picture that are photographs of their own
FIRST_CLASSES = "flower.jpg"  # alone among the pictures, it is smallest without a colour transform
SEED = 20260107


@dataclass(frozen=True)
class Amounts:
    """How many samples there are, and how large images are."""

    side: int  # of photographs, and of what stands beside them
    mask_side: int
    photographs: int
    tokens: int  # rows
    first: int  # samples of the first kind, where images follow
    screenshots: int
    of_class: int  # crops of one photograph
    crop: int  # their side


FULL = Amounts(224, 256, photographs=170, tokens=4602, first=130, screenshots=150, of_class=86, crop=128)
# A version that looks at the first 256 samples only must be misled by small images, too.
QUICK = Amounts(64, 48, photographs=150, tokens=1200, first=260, screenshots=260, of_class=86, crop=40)


def amounts(settings: Settings) -> Amounts:
    """Of a quick run or of a full one."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True)
class Case:
    """A map-style dataset in memory: samples of one field, in an order."""

    name: str
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"value": self.rows[number]}

    def shuffled(self) -> Self:
        """The same samples in random order."""
        order = np.random.default_rng(SEED).permutation(len(self.rows))
        return type(self)(self.name, [self.rows[number] for number in order])


@cache
def photographs(cache: PackageCache, count: int, side: int) -> Rows:
    """uint8 [3, side, side]: the photographs of the other benchmarks, or the middle of them."""
    pixels = load_photographs(cache, count).pixels
    edge = (pixels[0].shape[0] - side) // 2
    return [np.ascontiguousarray(one[edge : edge + side, edge : edge + side].transpose(2, 0, 1)) for one in pixels]


def sorted_folder(cache: PackageCache, classes: int, of_class: int, side: int) -> Rows:
    """Crops of so many photographs, [3, side, side], all of the first one before those of the next."""
    image = need("PIL.Image")
    pictures, _ = open_sources(cache)
    names = sorted(pictures, key=lambda name: (name != FIRST_CLASSES, name))
    found: list[Pixels] = []
    for number in range(classes):
        chance = np.random.default_rng([SEED, number])
        picture = _part(pictures[names[number // PARTS % len(names)]], number % PARTS)
        most = min(picture.size)
        for _ in range(of_class):
            length = int(chance.integers(min(side, most), most + 1))
            left, top = (int(chance.integers(0, size - length + 1)) for size in picture.size)
            crop = picture.resize((side, side), image.Resampling.BILINEAR, (left, top, left + length, top + length))
            found.append(np.ascontiguousarray(np.asarray(crop, np.uint8).transpose(2, 0, 1)))
    return found


def _part(picture: Any, number: int) -> Any:
    """A third of a picture, cut across its longer side: none shares a pixel with another."""
    width, height = picture.size
    if width >= height:
        return picture.crop((width * number // PARTS, 0, width * (number + 1) // PARTS, height))
    return picture.crop((0, height * number // PARTS, width, height * (number + 1) // PARTS))


@cache
def token_rows(cache: PackageCache, count: int, length: int = 512) -> Rows:
    """int64 ids of real text, at random places."""
    ids, _ = token_ids(cache)
    starts = np.random.default_rng(SEED).integers(0, len(ids) - length + 1, count)
    return [ids[start : start + length] for start in starts]


def like(row: npt.NDArray[Any], count: int) -> Rows:
    """Zeros of the same kind."""
    return [np.zeros_like(row)] * count


def noise(row: npt.NDArray[Any], count: int) -> Rows:
    """Random bytes of the same shape."""
    chance = np.random.default_rng(SEED + 1)
    return [chance.integers(0, 256, row.shape, np.uint8) for _ in range(count)]


def small_ids(count: int, length: int = 200) -> Rows:
    """Rows of random int64 ids below 10."""
    return list(np.random.default_rng(SEED).integers(0, 10, (count, length)))


def ids(count: int, below: int, length: int = 200) -> Rows:
    """Rows of ids in ascending order, as of neighbours in a graph: where each row begins is random."""
    chance = np.random.default_rng([SEED, below])
    steps = chance.integers(0, max(2, below // 1000), (count, length))
    return list(chance.integers(0, below, (count, 1)) + np.cumsum(steps, axis=1))


def first_table(settings: Settings) -> Iterator[Case]:
    """First some samples of one kind, then the rest."""
    amount = amounts(settings)
    photos = photographs(settings.cache, amount.photographs, amount.side)
    screens = list(screenshots(amount.screenshots, amount.side, SEED))
    full = list(masks(700, amount.mask_side, SEED))
    bools = [mask > 0 for mask in full]
    tokens = token_rows(settings.cache, amount.tokens)
    grey = photos[0].mean(axis=0, keepdims=True).astype(np.uint8)
    yield Case("300 empty masks, 700 full ones", [*like(full[0], 300), *full])
    yield Case("300 empty bool masks, 700 full ones", [*like(bools[0], 300), *bools])
    yield Case(f"{amount.first} black images, {len(photos)} photographs", [*like(photos[0], amount.first), *photos])
    yield Case(f"256 rows of padding, {len(tokens):,} rows of tokens", [*like(tokens[0], 256), *tokens])
    yield Case(f"{amount.first} images of noise, {len(photos)} photographs", [*noise(photos[0], amount.first), *photos])
    yield Case("300 rows of small ids, 3,000 of large ones", [*small_ids(300), *ids(3000, 30_000)])
    yield Case(f"{len(screens)} screenshots, 150 photographs", [*screens, *photos[:150]])
    yield Case("one image of 4x4, then photographs", [np.ascontiguousarray(photos[0][:, :4, :4]), *photos])
    yield Case("one grey image, then photographs", [grey, *photos])
    crops = sorted_folder(settings.cache, CLASSES, amount.of_class, amount.crop)
    yield Case(f"a folder of {CLASSES} classes of photographs, sorted", crops)


def further_orders(settings: Settings) -> Iterator[Case]:
    """Twelve other orders of samples of several kinds."""
    amount = amounts(settings)
    side = amount.side // 2
    photos = photographs(settings.cache, amount.photographs, side)
    screens = list(screenshots(150, side, SEED + 2))
    full = list(masks(300, side, SEED + 3))
    tokens = token_rows(settings.cache, amount.tokens)[: amount.tokens // 2]
    floats = [normalise(np.ascontiguousarray(photo.transpose(1, 2, 0))) for photo in photos[:100]]
    chance = np.random.default_rng(SEED + 4)

    yield Case("photographs, the darkest first", sorted(photos, key=lambda row: float(row.mean())))
    yield Case("token rows, those of common words first", sorted(tokens, key=lambda row: float(np.median(row))))
    yield Case("blocks of 20 screenshots and 20 photographs", blocks(screens, photos[:140], 20))
    yield Case("blocks of 64 empty and 64 full masks", blocks(like(full[0], 300), full, 64))
    outlier = (1e30 * chance.standard_normal(floats[0].shape)).astype(np.float32)
    yield Case("one image of huge floats, then normalised photographs", [outlier, *floats])
    yield Case("one row of huge ids, then rows of tokens", [chance.integers(0, 1 << 62, 512), *tokens])
    sides = np.linspace(4, side, len(photos)).astype(int)
    growing = [np.ascontiguousarray(photo[:, :each, :each]) for photo, each in zip(photos, sides, strict=True)]
    yield Case("photographs, larger and larger", growing)
    lengths = np.linspace(1, 512, len(tokens)).astype(int)
    yield Case("token rows, longer and longer", [row[:each] for row, each in zip(tokens, lengths, strict=True)])
    icons = [np.ascontiguousarray(row[:, 16:48, 16:48] if side >= 48 else row[:, :24, :24]) for row in photos]
    yield Case("two datasets merged: 32x32 images, then photographs", [*icons, *photos])
    halves = [row.astype(np.float16).astype(np.float32) for row in floats]
    yield Case("two datasets merged: rounded floats, then normalised photographs", [*halves, *floats])
    grey = [np.repeat(photo[:1], 3, axis=0) for photo in photos]
    kinds = [photos, screens, grey, noise(photos[0], 60), like(photos[0], 150)]
    for seed in (1, 2):
        yield Case(f"runs of five kinds of images, drawn from seed {seed}", drawn(kinds, seed))


def blocks(first: Rows, second: Rows, length: int) -> Rows:
    """So many of the first, so many of the second, and again, until both have ended."""
    found: list[npt.NDArray[Any]] = []
    for start in range(0, max(len(first), len(second)), length):
        found += [*first[start : start + length], *second[start : start + length]]
    return found


def drawn(kinds: Sequence[Rows], seed: int) -> Rows:
    """Runs of random kinds and lengths, short ones more often, until every sample is taken."""
    chance = np.random.default_rng([SEED, seed])
    left = [list(kind) for kind in kinds]
    found: list[npt.NDArray[Any]] = []
    while left:
        number = int(chance.integers(len(left)))
        length = int(2 ** chance.uniform(0, 7))
        found += left[number][:length]
        del left[number][:length]
        left = [kind for kind in left if kind]
    return found
