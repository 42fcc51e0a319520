"""Tensor files: save, load, peek into, inspect and trim them."""

from cordwood.tensors import pickle_module
from cordwood.tensors.inspecting import inspect
from cordwood.tensors.inspection import Inspection
from cordwood.tensors.loading import load
from cordwood.tensors.peeking import Peek, peek
from cordwood.tensors.saving import save
from cordwood.tensors.trimming import Trimmed, trim

__all__ = ["Inspection", "Peek", "Trimmed", "inspect", "load", "peek", "pickle_module", "save", "trim"]
