"""A packed dataset on disk: samples written once, read by number, compressed and checked.

    with cw.Writer("train.cordwood") as writer:
        for image, label in source:
            writer.append({"image": image, "label": label})

    ds = cw.open("train.cordwood")
    ds[3], ds[[5, 1, 9]], ds.select("image", "label")

``writer`` takes samples, ``reader`` gives rows and arrays, ``dataset`` makes a torch dataset of them. What a sample may
be is in ``schema``, ``infer`` and ``flatten``; ``anything`` encodes what has no fixed form. The bytes are described in
docs/format/store.md.
"""

from cordwood.store.dataset import Dataset
from cordwood.store.field import Field
from cordwood.store.inspecting import inspect
from cordwood.store.inspection import StoreInspection
from cordwood.store.opening import concat, open
from cordwood.store.salvaging import Salvaged, salvage
from cordwood.store.schema import Schema
from cordwood.store.verifying import Verification, verify
from cordwood.store.writer import Writer

__all__ = [
    "Dataset",
    "Field",
    "Salvaged",
    "Schema",
    "StoreInspection",
    "Verification",
    "Writer",
    "concat",
    "inspect",
    "open",
    "salvage",
    "verify",
]
