"""A packed dataset on disk: samples are written once, read by number, compressed and checked.

    with cw.Writer("train.cordwood") as writer:
        for image, label in source:
            writer.append({"image": image, "label": label})

    ds = cw.open("train.cordwood")
    ds[3], ds[[5, 1, 9]], ds.select("image", "label")

How a sample is written:

1. ``writer``: a sample -> one more sample of the store. ``format.folder`` creates or resumes the folder, and locks it.
2. ``writing.first_samples``: the first samples -> a ``schema`` (``writing.infer``) and a codec plan per field.
3. ``writing.prepare`` and ``writing.flatten``: a sample -> arrays, and the bytes of its columns (``values``).
4. ``writing.encode``: a chunk of samples -> frames, by one native call.
5. ``writing.appender``: frames -> shards; a shard appears when it is complete and synced. ``format`` has the files.

How samples are read:

1. ``opening``: a path -> a ``dataset``. Reads the manifest and the shard index, nothing else.
2. ``dataset``: indices -> sample numbers (``reading.selection``).
3. ``reading.reader``: sample numbers -> rows, columns and arrays, by one native call.
4. ``reading.rebuild`` and ``reading.assemble``: these -> samples, or a collated batch.

``checking`` has ``cw.verify`` and ``cw.salvage``, ``inspecting`` has ``cw.inspect``. docs/format/store.md describes the
bytes. Imports ``tensors``, ``images``, ``codecs``, ``common`` and ``native``; used by ``feed``, ``packing``,
``doctor``, ``demo`` and ``cli``.

Where to add things:

* A type of value: ``values/accepted_types.py``, its kind in ``schema/node.py``, ``writing/infer.py`` and
  ``writing/flatten.py`` on the way in, ``reading/rebuild.py`` on the way out, and docs/format/store.md first.
* An option of a field: ``schema/field.py``, its entry in ``format/manifest.py``, and ``writing/options.py``, which
  compares it with an existing store.
"""

from cordwood.store.checking.damage import Damage
from cordwood.store.checking.salvage import NOTHING_LEFT, Salvaged, salvage
from cordwood.store.checking.survey import check_is_store, is_store
from cordwood.store.checking.verify import Verification, verify
from cordwood.store.dataset import Dataset
from cordwood.store.format.folder import store_bytes
from cordwood.store.inspecting.inspect import inspect, inspect_store
from cordwood.store.inspecting.result import FieldRow, StoreInspection
from cordwood.store.inspecting.text import plan_lines
from cordwood.store.opening import concat, open
from cordwood.store.reading.buffers import Allocate, idle_bytes, new_tensor
from cordwood.store.reading.encoded_images import CHANNELS
from cordwood.store.reading.image_treatment import Seeds, Treatment
from cordwood.store.reading.read_plan import ReadPlan
from cordwood.store.reading.reader import Filled, Reader, ReadOptions
from cordwood.store.reading.selection import Choice, Numbers
from cordwood.store.reading.shards import check_meanings, index_of
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import ARRAYS
from cordwood.store.schema.schema import ROOT_NAME, Leaf, Schema, described, shown_names
from cordwood.store.values.any_value import decode as decode_value
from cordwood.store.values.any_value import encode as encode_value
from cordwood.store.values.arrays import CARRIERS, known
from cordwood.store.writer import Writer

__all__ = [
    "ARRAYS",
    "CARRIERS",
    "CHANNELS",
    "NOTHING_LEFT",
    "ROOT_NAME",
    "Allocate",
    "Choice",
    "Damage",
    "Dataset",
    "Field",
    "FieldRow",
    "Filled",
    "Leaf",
    "Numbers",
    "ReadOptions",
    "ReadPlan",
    "Reader",
    "Salvaged",
    "Schema",
    "Seeds",
    "StoreInspection",
    "Treatment",
    "Verification",
    "Writer",
    "check_is_store",
    "check_meanings",
    "concat",
    "decode_value",
    "described",
    "encode_value",
    "idle_bytes",
    "index_of",
    "inspect",
    "inspect_store",
    "is_store",
    "known",
    "new_tensor",
    "open",
    "plan_lines",
    "salvage",
    "shown_names",
    "store_bytes",
    "verify",
]
