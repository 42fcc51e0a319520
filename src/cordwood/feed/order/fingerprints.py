"""Short numbers that identify the samples of a dataset, a list of indices, or weights.

    fingerprint("indices", np.array([5, 1, 9]))
    fingerprint_of(cw.open("train.cordwood"))      # the same for a copy of the store in another folder

They find mistakes, not malice: half of each is a CRC.
"""

import numpy as np
import numpy.typing as npt

from cordwood.feed.order.permutation import mixed
from cordwood.native import _native
from cordwood.store import Choice, Dataset

_EXACT = (1 << 53) - 1  # what every reader of JSON takes for a whole number


def fingerprint(*parts: int | str | npt.NDArray[np.generic]) -> int:
    """A number from 1 to 2**53 - 1 of these parts in this order."""
    words: list[int] = []
    for part in parts:
        if isinstance(part, int):
            words.append(part)
            continue
        data = part.encode() if isinstance(part, str) else np.ascontiguousarray(part).view(np.uint8)
        words += [len(data), _native.crc32c(data)]
    return (int(mixed(*words)) & _EXACT) or 1


def fingerprint_of(dataset: Dataset) -> int:
    """Of the samples that a dataset shows, their order and their fields; nothing but what opening has read is read.

    ::

        fingerprint_of(ds) == fingerprint_of(cw.open(copy_of_the_store))     # True
        fingerprint_of(ds) == fingerprint_of(ds[:1000])                      # False

    A shard's record has a checksum that covers, over its rows, every frame in it.
    """
    reader = dataset.reader
    parts: list[int | str | npt.NDArray[np.generic]] = [reader.schema.hash]
    for records, length in zip(reader.shards.records, reader.shards.lengths, strict=True):
        parts.append(length)
        # What was added behind the samples that are shown does not count.
        shown = records[records["first"] < length]
        parts += [shown[name] for name in ("count", "file_size", "schema_hash", "trailer_crc")]
    parts += _choice_parts(dataset.read_plan.selection)
    parts += dataset.names
    return fingerprint(*parts)


def _choice_parts(choice: Choice) -> list[int | npt.NDArray[np.generic]]:
    """The same for a range and for an array of the same numbers."""
    regular = choice if isinstance(choice, range) else _as_range(choice)
    if regular is None:
        return [len(choice), np.asarray(choice)]
    if len(regular) <= 1:
        return [len(regular), *regular]
    return [len(regular), regular.start, regular.step]


def _as_range(numbers: npt.NDArray[np.int64]) -> range | None:
    if len(numbers) <= 1:
        return range(int(numbers[0]), int(numbers[0]) + 1) if len(numbers) else range(0)
    first, step = int(numbers[0]), int(numbers[1]) - int(numbers[0])
    last = first + step * (len(numbers) - 1)
    if not step or int(numbers[-1]) != last:
        return None
    regular = np.arange(first, last + step, step, dtype=np.int64)
    return range(first, last + step, step) if np.array_equal(regular, numbers) else None
