"""Which fields some samples of a store lack, for the notes of a summary, so that it is known before training.

lacking(Path("train.cordwood"))     # ["field 'mask': 28 of 1,632 samples lack it, or hold None"]
"""

from collections import Counter
from pathlib import Path

from cordwood.common.text import brief, counted
from cordwood.errors import FormatError, StorageError
from cordwood.store.format import manifest, shard_index
from cordwood.store.format.shard_file import read_ends, read_footer, shard_name

_MOST_TOLD = 8


def lacking(store: Path) -> list[str]:
    """A sentence for each field that samples lack; nothing is read of a store whose samples have all fields."""
    optional = manifest.read(store).optional
    if not optional:
        return []
    below = tuple(f"{name}." for name in optional)
    counts: Counter[str] = Counter()
    samples = 0
    try:
        for number, record in enumerate(shard_index.read(store).records):
            path = store / shard_name(number)
            samples += int(record["count"])
            for field in read_footer(path, read_ends(path))["fields"]:
                if field["name"] in optional or field["name"].startswith(below):
                    counts[field["name"]] += field["none"] + field["absent"]
    except (FormatError, StorageError):  # of a shard that was damaged since: `cordwood verify` reports it
        return []
    told = [
        f"field {brief(name)}: {count:,} of {counted(samples, 'sample')} lack it, or hold None"
        for name, count in counts.items()
        if count
    ]
    more = [f"{len(told) - _MOST_TOLD:,} more fields that some samples lack"] if len(told) > _MOST_TOLD else []
    return [*told[:_MOST_TOLD], *more]
