"""Cordwood keeps tensors in fewer bytes and gives them back bit for bit.

    import cordwood as cw

    cw.save(batch[3], "one.pt")         # the bytes of one slice; plain torch.load reads the file
    cw.save(model.state_dict(), "model.cord")
    state = cw.load("model.cord")       # also .pt, old and new, and .safetensors
    print(cw.inspect("checkpoint.pt"))  # what is in it, what is shared, what is waste
    cw.trim("checkpoint.pt", "small.pt")

    ds = cw.cached(dataset, "train.cordwood")   # packed when this runs first, opened ever after
    cw.pack("photos/", "train.cordwood", transform=prepare)     # once, in parallel; killed and resumed at will
    ds = cw.open("train.cordwood")      # a torch dataset: len(ds), ds[3], ds[[5, 1, 9]]

    for batch in cw.Loader(ds, batch_size=256, shuffle=True): ...

    with cw.diagnose() as d: train()    # or, without touching the script: cordwood doctor train.py
    print(d.report)

    frame = cw.codecs.encode(array, "small")

Names load when they are first used (PEP 562), so ``import cordwood`` by itself imports neither torch nor NumPy.
What it has to say while it works goes to the logger ``"cordwood"``, which is silent until you configure ``logging``.
"""

import logging
from typing import TYPE_CHECKING

from cordwood.common.lazy import lazy_names

if TYPE_CHECKING:
    from cordwood import codecs as codecs
    from cordwood import errors as errors
    from cordwood.doctor import Comparison as Comparison
    from cordwood.doctor import Report as Report
    from cordwood.doctor import Timer as Timer
    from cordwood.doctor import diagnose as diagnose
    from cordwood.errors import CordwoodError as CordwoodError
    from cordwood.errors import DoctorError as DoctorError
    from cordwood.errors import FeedError as FeedError
    from cordwood.errors import FormatError as FormatError
    from cordwood.errors import PackError as PackError
    from cordwood.errors import StorageError as StorageError
    from cordwood.errors import TensorNameError as TensorNameError
    from cordwood.errors import UnsafePickleError as UnsafePickleError
    from cordwood.errors import UsageError as UsageError
    from cordwood.feed import Loader as Loader
    from cordwood.feed import LoaderStats as LoaderStats
    from cordwood.feed import Padded as Padded
    from cordwood.feed import Prefetched as Prefetched
    from cordwood.feed import augment as augment
    from cordwood.feed import prefetch as prefetch
    from cordwood.packing import Estimate as Estimate
    from cordwood.packing import Exported as Exported
    from cordwood.packing import Merged as Merged
    from cordwood.packing import Packed as Packed
    from cordwood.packing import PackProgress as PackProgress
    from cordwood.packing import cached as cached
    from cordwood.packing import export as export
    from cordwood.packing import merge as merge
    from cordwood.packing import pack as pack
    from cordwood.store import Damage as Damage
    from cordwood.store import Dataset as Dataset
    from cordwood.store import Field as Field
    from cordwood.store import FieldRow as FieldRow
    from cordwood.store import Salvaged as Salvaged
    from cordwood.store import Schema as Schema
    from cordwood.store import StoreInspection as StoreInspection
    from cordwood.store import Verification as Verification
    from cordwood.store import Writer as Writer
    from cordwood.store import concat as concat
    from cordwood.store import inspect as inspect
    from cordwood.store import open as open
    from cordwood.store import salvage as salvage
    from cordwood.store import verify as verify
    from cordwood.tensors import Inspection as Inspection
    from cordwood.tensors import Peek as Peek
    from cordwood.tensors import Saving as Saving
    from cordwood.tensors import TensorInfo as TensorInfo
    from cordwood.tensors import TensorRow as TensorRow
    from cordwood.tensors import Trimmed as Trimmed
    from cordwood.tensors import load as load
    from cordwood.tensors import peek as peek
    from cordwood.tensors import pickle_module as pickle_module
    from cordwood.tensors import save as save
    from cordwood.tensors import trim as trim

__version__ = "0.1.0.dev0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

# Public name -> the module it is in; a module's own name stands for the module itself.
_HOME = {
    "Comparison": "doctor",
    "CordwoodError": "errors",
    "Damage": "store",
    "Dataset": "store",
    "DoctorError": "errors",
    "Estimate": "packing",
    "Exported": "packing",
    "FeedError": "errors",
    "Field": "store",
    "FieldRow": "store",
    "FormatError": "errors",
    "Inspection": "tensors",
    "Loader": "feed",
    "LoaderStats": "feed",
    "Merged": "packing",
    "PackError": "errors",
    "PackProgress": "packing",
    "Packed": "packing",
    "Padded": "feed",
    "Peek": "tensors",
    "Prefetched": "feed",
    "Report": "doctor",
    "Salvaged": "store",
    "Saving": "tensors",
    "Schema": "store",
    "StorageError": "errors",
    "StoreInspection": "store",
    "TensorInfo": "tensors",
    "TensorNameError": "errors",
    "TensorRow": "tensors",
    "Timer": "doctor",
    "Trimmed": "tensors",
    "UnsafePickleError": "errors",
    "UsageError": "errors",
    "Verification": "store",
    "Writer": "store",
    "augment": "feed",
    "cached": "packing",
    "codecs": "codecs",
    "concat": "store",
    "diagnose": "doctor",
    "errors": "errors",
    "export": "packing",
    "inspect": "store",
    "load": "tensors",
    "merge": "packing",
    "open": "store",
    "pack": "packing",
    "peek": "tensors",
    "pickle_module": "tensors",
    "prefetch": "feed",
    "salvage": "store",
    "save": "tensors",
    "trim": "tensors",
    "verify": "store",
}

__all__ = [
    "Comparison",
    "CordwoodError",
    "Damage",
    "Dataset",
    "DoctorError",
    "Estimate",
    "Exported",
    "FeedError",
    "Field",
    "FieldRow",
    "FormatError",
    "Inspection",
    "Loader",
    "LoaderStats",
    "Merged",
    "PackError",
    "PackProgress",
    "Packed",
    "Padded",
    "Peek",
    "Prefetched",
    "Report",
    "Salvaged",
    "Saving",
    "Schema",
    "StorageError",
    "StoreInspection",
    "TensorInfo",
    "TensorNameError",
    "TensorRow",
    "Timer",
    "Trimmed",
    "UnsafePickleError",
    "UsageError",
    "Verification",
    "Writer",
    "__version__",
    "augment",
    "cached",
    "codecs",
    "concat",
    "diagnose",
    "errors",
    "export",
    "inspect",
    "load",
    "merge",
    "open",
    "pack",
    "peek",
    "pickle_module",
    "prefetch",
    "salvage",
    "save",
    "trim",
    "verify",
]


if not TYPE_CHECKING:  # a type checker would take any name then
    __getattr__ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
