"""Small stores for tests: samples that are the same every time, and the bytes of a store's folder."""

from pathlib import Path
from typing import Any

import torch

import cordwood as cw


def photo(number: int, size: int = 8) -> dict[str, Any]:
    """A sample with a smooth image, a label, a text and a field that only some samples have."""
    across = torch.arange(size).reshape(1, 1, size) * 3 + torch.arange(size).reshape(1, size, 1) * 2
    image = (across + torch.tensor([0, 40, 90]).reshape(3, 1, 1) + number) % 256
    sample: dict[str, Any] = {
        "image": image.to(torch.uint8),
        "label": number,
        "meta": {"path": f"{number}.jpg", "boxes": torch.arange(number % 3 * 4).reshape(-1, 4) / 7},
    }
    if number % 5 == 0:
        sample["note"] = None if number % 2 else "blurred"
    return sample


def write(path: Path, samples: list[Any], **options: Any) -> Path:
    """A store of these samples."""
    with cw.Writer(path, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return path


def files_of(path: Path) -> dict[str, bytes]:
    """Every file of a store, the lock's among them, by its name."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
