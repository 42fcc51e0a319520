"""Identifies the tensors of a step by their memory and strides, since tensor objects come and go.

    table = TensorTable(budget=64 << 20)
    meta, whole = table.taken(tensor, index=3)  # an input of operation 3: known, or a leaf
    meta = table.made(tensor, inputs)           # an output: new, unless it is one of the inputs

Autograd hands saved tensors out as new objects, so objects cannot be asked; the memory can. A weak reference to each
storage sees to it that its address is not given to another one while the step lasts; the memory itself is freed when
the script lets go of it.
"""

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cordwood.doctor.evidence.tape import TapeLeaf, TensorMeta

_SAMPLE = 256  # values of a leaf that are kept, so that others like them can be made
_Key = tuple[int, int, tuple[int, ...], tuple[int, ...], torch.dtype]


class CannotFollow(Exception):  # noqa: N818 - the reason why there will be no tape, not an error
    """Raised at a tensor that a replay could not make again."""


def _plain(kind: type) -> bool:
    return (
        kind is torch.Tensor
        or kind is torch.nn.Parameter
        or kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl  # type: ignore[attr-defined]
    )


class TensorTable:
    """The tensors of one step."""

    def __init__(self, budget: int) -> None:
        self.leaves: dict[int, TapeLeaf] = {}
        self.storages: dict[int, tuple[int, StorageWeakRef]] = {}  # address -> number, and what keeps it its own
        self._by_key: dict[_Key, TensorMeta] = {}
        self._made_here: dict[int, TensorMeta] = {}  # storage number -> the tensor that was made last in it
        self._budget = budget  # bytes of values that may still be kept
        self._count = 0

    def taken(self, tensor: torch.Tensor, index: int) -> tuple[TensorMeta, TensorMeta | None]:
        """An input of the operation with this index, and, if it is a view made unseen, what it is a view of."""
        key, storage = self._key(tensor)
        known = self._by_key.get(key)
        if known is not None:
            return known, None
        meta = self._number(tensor, key, storage)
        base = self._made_here.get(storage)
        if base is None:
            self._keep(tensor, meta, index)
        elif base.dtype != meta.dtype:
            raise CannotFollow("a tensor that changes its type in place cannot be made again")
        return meta, base

    def made(self, tensor: torch.Tensor, inputs: list[TensorMeta]) -> TensorMeta:
        """An output of an operation on these inputs."""
        key, storage = self._key(tensor)
        known = self._by_key.get(key)
        # What has come back to the look of an earlier tensor (transposed twice) is another one nonetheless: with
        # another layout in between it would look different.
        if known is not None and any(each.number == known.number for each in inputs):
            return known
        meta = self._number(tensor, key, storage)
        if storage in self._made_here or all(each.storage != storage for each in inputs):
            self._made_here[storage] = meta
        return meta

    def given(self, tensor: torch.Tensor, meta: TensorMeta, index: int) -> None:
        """An output whose values cannot be computed again: it becomes a leaf."""
        self._made_here.pop(meta.storage, None)
        self._keep(tensor, meta, index)

    def _number(self, tensor: torch.Tensor, key: _Key, storage: int) -> TensorMeta:
        self._count += 1
        _, offset, shape, stride, dtype = key
        nbytes = tensor.numel() * tensor.element_size()
        meta = TensorMeta(self._count, shape, stride, dtype, tensor.device, nbytes, storage, offset)
        self._by_key[key] = meta
        return meta

    def _key(self, tensor: torch.Tensor) -> tuple[_Key, int]:
        kind = type(tensor)
        if not _plain(kind):
            raise CannotFollow(f"a tensor of the type {kind.__name__} cannot be made again")
        if tensor.layout is not torch.strided:
            raise CannotFollow(f"a tensor with the layout {tensor.layout} cannot be made again")
        if tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.device.type == "meta":
            raise CannotFollow("a quantized, lazily conjugated or meta tensor cannot be made again")
        memory = tensor.untyped_storage()
        address: int = memory._cdata
        seen = self.storages.get(address)
        if seen is None:
            seen = self.storages[address] = (len(self.storages), StorageWeakRef(memory))
        key = (address, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        return key, seen[0]

    def _keep(self, tensor: torch.Tensor, meta: TensorMeta, index: int) -> None:
        """Values of a leaf, taken before anything changes them: nothing waits for a device, and none is changed."""
        leaf = self.leaves[meta.number] = TapeLeaf(meta, first_use=index)
        if not meta.nbytes:
            return
        with torch.no_grad():
            if not (meta.dtype.is_floating_point or meta.dtype.is_complex) and meta.nbytes <= self._budget:
                self._budget -= meta.nbytes
                leaf.values = tensor.detach().clone()
                return
            reach = 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.stride, strict=True))
            apart = max(1, reach // _SAMPLE)
            count = min(_SAMPLE, -(-reach // apart))
            leaf.sample = tensor.detach().as_strided((count,), (apart,), meta.offset).clone()
