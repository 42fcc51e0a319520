"""A packed dataset on disk: samples written once, read by number, compressed and checked.

    with cw.Writer("train.cordwood") as writer:
        for image, label in source:
            writer.append({"image": image, "label": label})

    ds = cw.open("train.cordwood")
    ds[3], ds[[5, 1, 9]], ds.select("image", "label")

``writer`` takes samples, ``reading`` gives rows and arrays, ``dataset`` makes a torch dataset of them. What a sample
may be is in ``schema`` and ``values``, how it is found out in ``writing``; ``format`` knows the files of a store, whose
bytes are described in docs/format/store.md. ``checking`` finds damage and rescues, ``inspecting`` describes.
"""

from cordwood.store.checking.salvage import Salvaged, salvage
from cordwood.store.checking.verify import Verification, verify
from cordwood.store.dataset import Dataset
from cordwood.store.inspecting.inspect import inspect
from cordwood.store.inspecting.result import StoreInspection
from cordwood.store.opening import concat, open
from cordwood.store.schema.field import Field
from cordwood.store.schema.schema import Schema
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
