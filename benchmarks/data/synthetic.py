"""Samples that need no download: masks, screenshots, texts, boxes and the like, from fixed seeds.

screenshots(150, 224, seed=1)       # uint8 [150, 3, 224, 224]: flat areas, lines of text-like marks
masks(700, 256, seed=2)             # uint8 [700, 256, 256]: blobs of a few classes
json_texts(1000, seed=3)            # strings of about 93 bytes
"""

import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.data.photographs import Pixels

_COMMONEST = (
    "the of and to in is that for it with as was on be at by this have from or one had not but what all were when "
    "we there can an your which their said if do will each about how up out them then she many some so these would "
    "other into has more her two like him see time could no make than first been its who now people my made over "
    "did down only way find use may water long little very after words called just where most know get through back "
    "much go good new write our me man too any day same right look think also around another came come work three "
    "must because does part even place well such here take why help put different away again off went old number "
)
_WORDS = _COMMONEST.split()
_FOLDERS = ("train", "val", "test")
_LIGHT, _DARK = 200, 90  # of the parts of a screenshot


def masks(count: int, side: int, seed: int) -> Pixels:
    """Blobs of classes 1 to 20 on 0: discs and boxes that may cover one another."""
    chance = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    found = np.zeros((count, side, side), np.uint8)
    for mask in found:
        for _ in range(int(chance.integers(2, 8))):
            top, left, radius = chance.integers(side), chance.integers(side), chance.integers(side // 16, side // 4)
            value = chance.integers(1, 21)
            if chance.random() < 0.7:
                stretch = chance.uniform(0.5, 2.0)
                mask[(rows - top) ** 2 + stretch * (columns - left) ** 2 < radius**2] = value
            else:
                mask[top : top + radius, left : left + radius] = value
    return found


def screenshots(count: int, side: int, seed: int) -> Pixels:
    """Windows of flat colours, with title bars, buttons and lines of text-like marks: [count, 3, side, side]."""
    chance = np.random.default_rng(seed)
    glyphs = chance.random((64, 7, 5)) < 0.45
    found = np.empty((count, side, side, 3), np.uint8)
    for image in found:
        image[:] = chance.integers(_LIGHT, 256, 3)
        for _ in range(int(chance.integers(2, 5))):
            top, left = chance.integers(0, side * 3 // 4, 2)
            height, width = chance.integers(side // 4, side, 2)
            window = image[top : top + height, left : left + width]
            window[:] = chance.integers(_LIGHT, 256, 3)
            window[:9] = chance.integers(0, _DARK, 3)
            window[:, :1] = window[:, -1:] = window[-1:] = _DARK
            _write_lines(window[12:], glyphs, chance)
    return np.ascontiguousarray(found.transpose(0, 3, 1, 2))


def _write_lines(area: Pixels, glyphs: npt.NDArray[np.bool_], chance: np.random.Generator) -> None:
    ink = chance.integers(0, _DARK, 3).astype(np.uint8)
    for top in range(0, area.shape[0] - 8, 10):
        at = 4
        for _ in range(int(chance.integers(2, 9))):
            for glyph in chance.integers(0, len(glyphs), int(chance.integers(2, 9))):
                if at + 6 >= area.shape[1]:
                    break
                area[top : top + 7, at : at + 5][glyphs[glyph]] = ink
                at += 6
            at += 6


def digits(count: int, seed: int) -> Pixels:
    """28x28 grey strokes on black."""
    chance = np.random.default_rng(seed)
    rows, columns = np.mgrid[:28, :28]
    found = np.zeros((count, 28, 28))
    for image in found:
        place = chance.uniform(7, 21, 2)
        for _ in range(int(chance.integers(2, 4))):
            target = chance.uniform(5, 23, 2)
            points = place + np.linspace(0, 1, 6)[:, None, None, None] * (target - place)
            distances = (rows - points[..., 0]) ** 2 + (columns - points[..., 1]) ** 2
            np.maximum(image, 255 * np.exp(-distances / 2.5).max(axis=0), out=image)
            place = target
    return np.where(found < 8, 0, found).astype(np.uint8)


def boxes(count: int, seed: int) -> list[npt.NDArray[np.float32]]:
    """Corners of 1 to 12 boxes each, in pixels of an image of 640x480: [N, 4]."""
    chance = np.random.default_rng(seed)
    found = []
    for number in chance.integers(1, 13, count):
        corners = chance.uniform(0, 1, (int(number), 2, 2)) * (640, 480)
        corners.sort(axis=1)
        found.append(corners.reshape(-1, 4).round(1).astype(np.float32))
    return found


def json_texts(count: int, seed: int) -> list[str]:
    """Records of one shape, of about 93 bytes."""
    chance = np.random.default_rng(seed)
    return [
        json.dumps(
            {
                "id": number,
                "label": _WORDS[chance.integers(len(_WORDS))],
                "score": round(float(chance.random()), 3),
                "by": "web",
                "tags": [_WORDS[chance.integers(len(_WORDS))]],
                "is_crowd": bool(chance.random() < 0.1),
            }
        )
        for number in chance.permutation(count).tolist()
    ]


def path_texts(count: int, seed: int) -> list[str]:
    """Paths of image files, as every folder of images has them, of about 40 bytes."""
    chance = np.random.default_rng(seed)
    classes = 1_440_000 + 3571 * chance.integers(1000, size=count)
    return [
        f"images/{_FOLDERS[chance.integers(3)]}/n{label:08d}/n{label:08d}_{chance.integers(30_000)}.JPEG"
        for label in classes.tolist()
    ]


def sentence_texts(count: int, seed: int) -> list[str]:
    """Words of everyday English, the commoner ones more often: 40 to 100 bytes."""
    chance = np.random.default_rng(seed)
    weights = 1 / np.arange(3, len(_WORDS) + 3)
    weights /= weights.sum()
    drawn = iter(chance.choice(len(_WORDS), 50 * count, p=weights).tolist())
    found = []
    for length in chance.integers(40, 100, count).tolist():
        text = ""
        while len(text) < length - 5:
            text += f"{_WORDS[next(drawn)]} "
        found.append(text.strip().capitalize() + ".")
    return found


TEXTS: dict[str, Callable[[int, int], list[str]]] = {
    "JSON strings": json_texts,
    "paths": path_texts,
    "sentences": sentence_texts,
}
