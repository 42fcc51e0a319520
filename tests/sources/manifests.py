"""Manifests for tests, and what is read by them.

source = manifest(tmp_path, "path,label\\n1.png,cat\\n")
samples(source)     # [{"label": 0, "path": "1.png"}]
"""

import pickle
from pathlib import Path
from typing import Any

import cloudpickle

from cordwood.sources import Source, find


def samples(source: Source, start: int = 0) -> list[dict[str, Any]]:
    """What the reader gives, without the pixels."""
    reader = cloudpickle.loads(cloudpickle.dumps(source.reader()))
    found = [reader(pickle.loads(pickle.dumps(given.handle))) for given in source.inputs(start)]
    return [{key: value for key, value in sample.items() if key != "image"} for sample in found]


def manifest(root: Path, text: str | bytes, name: str = "list.csv") -> Source:
    (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return find(root / name)
