"""Small good files of every format, to damage."""

import functools
import io
import warnings
from collections import OrderedDict
from typing import Any

import torch

import cordwood
from tests.tensors.support import craft

LIMIT = 1 << 24


def _objects() -> dict[str, Any]:
    base = torch.arange(24.0).reshape(4, 6)
    model = torch.nn.Linear(3, 2)
    noted = torch.ones(2)
    noted.note = "mine"  # type: ignore[attr-defined]
    scales, zeros = torch.tensor([0.5, 2.0]), torch.tensor([0, 1])
    return {
        "tensor": base,
        "views": {"a": base[1:3], "b": base[:, 2:].T, "c": [base, base]},
        "state_dict": model.state_dict(),
        "checkpoint": {"model": OrderedDict(model.state_dict()), "epoch": 5, "lr": 0.1, "names": ["a", ("b", b"\xff")]},
        "kinds": [torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2).bfloat16(), torch.empty(0), noted],
        "sparse": [torch.eye(3).to_sparse(), torch.eye(4).to_sparse_csr(), torch.eye(4).to_sparse_bsc((2, 2))],
        "quantized": [
            torch.quantize_per_tensor(base, 0.5, 3, torch.quint8),
            torch.quantize_per_channel(base[:2], scales, zeros, 0, torch.qint8),
        ],
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "others": [torch.nn.Parameter(base), torch.empty(3, device="meta"), torch.Size([2]), torch.float16, {1, 2}],
    }


@functools.cache
def samples() -> dict[str, bytes]:
    """By name."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in _objects().items():
            for old in (False, True):
                file = io.BytesIO()
                torch.save(value, file, _use_new_zipfile_serialization=not old)
                found[f"{name}, {'legacy' if old else 'pt'}"] = file.getvalue()
            for goal in ("balanced", "raw"):
                file = io.BytesIO()
                cordwood.save(value, file, format="cord", goal=goal)
                found[f"{name}, cord {goal}"] = file.getvalue()
    file = io.BytesIO()
    cordwood.save(torch.zeros(4000), file, compress=True)
    found["compressed pt"] = file.getvalue()
    file = io.BytesIO()
    cordwood.save({"a": torch.arange(4000), "b": torch.zeros(500)}, file, format="cord", goal="small")
    found["frames"] = file.getvalue()
    found["pt, zipped"] = craft.zipped({"x.pt": found["views, pt"]}, deflated=True)
    found["legacy, zipped"] = craft.zipped({"x.pt": found["views, legacy"]})
    header = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]},
        "__metadata__": {"format": "pt"},
    }
    found["safetensors"] = craft.safetensors(header, bytes(range(24)))
    return found


def feed(data: bytes) -> str:
    """Load in every way; what it came to. Anything but a FormatError or a UsageError is raised."""
    outcome = "loaded"
    ways: tuple[dict[str, Any], ...] = ({}, {"only": "*"}, {"map_location": "meta"})
    for options in ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = cordwood.load(io.BytesIO(data), limit=LIMIT, **options)
        except cordwood.FormatError:
            outcome = "refused"
        except cordwood.UsageError:
            outcome = "not for this machine"
        else:
            _touch(value)
    return outcome


def _touch(value: Any, depth: int = 0) -> None:
    """Read every item of the tensors: one that reaches beyond its memory would not go unnoticed for long."""
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu" and value.layout is torch.strided and not value.is_nested:
            if value.numel() <= LIMIT and not value.is_quantized:
                value.detach().resolve_conj().resolve_neg().clone()
        elif value.is_nested and value.device.type == "cpu":
            for piece in value.detach().unbind():
                piece.clone()
    elif isinstance(value, dict) and depth < 20:
        for item in value.values():
            _touch(item, depth + 1)
    elif isinstance(value, list | tuple) and depth < 20:
        for item in value[:100]:
            _touch(item, depth + 1)
