"""Entries of the catalogue: what shares memory with what, and storages by themselves."""

from typing import Any

import numpy as np
import torch
from torch import nn

from tests.tensors.support.catalogue import case, floats

# what shares memory with what


@case()
def slice_of_a_batch() -> Any:
    return floats(64, 3, 5, 5)[17]


@case()
def tied_weights() -> Any:
    weight = floats(4, 5)
    return {"embed": weight, "head": weight, "transposed": weight.t(), "detached": weight.detach(), "row": weight[2]}


@case()
def disjoint_with_gaps() -> Any:
    base = floats(1000)
    return [base[3:7], base[100:120], base[500:501], base[990:]]


@case()
def adjoining() -> Any:
    return list(floats(12, 5).unbind())


@case()
def overlapping() -> Any:
    base = floats(200)
    return {"a": base[10:50], "b": base[30:70], "c": base[69:80], "apart": base[150:160]}


@case()
def columns() -> Any:
    base = floats(20, 30)
    return {"left": base[:, :5], "beside": base[:, 5:9], "over": base[:, 7:12], "rows": base[15:, 28:]}


@case()
def every_second() -> Any:
    base = floats(20, 30)
    return {"rows": base[::2], "columns": base[:, 1::3], "both": floats(9, 9)[::2, ::2]}


@case()
def channels_last() -> Any:
    images = floats(4, 3, 5, 6).to(memory_format=torch.channels_last)
    return {"whole": images, "one": images[1:2], "cropped": images[:, :, 1:4, 2:5]}


@case()
def transposed() -> Any:
    base = floats(6, 8)
    return {"t": base.t(), "part": floats(6, 8).t()[2:5], "permuted": floats(2, 3, 4).permute(2, 0, 1)}


@case()
def expanded() -> Any:
    return {
        "much": floats(1).expand(1000, 1000),
        "rows": floats(4, 1).expand(4, 50),
        "part": floats(9, 1)[3:5].expand(2, 6),
    }


@case()
def unfolded() -> Any:
    base = floats(40)
    return {"windows": base.unfold(0, 5, 2), "strided": floats(60)[::2].unfold(0, 3, 1), "alone": base[38:]}


@case()
def diagonals() -> Any:
    base = floats(8, 8)
    return {"diagonal": base.diagonal(), "row": base[3], "other": floats(8, 8).diagonal(1)}


@case()
def from_numpy_twice() -> Any:
    array = np.arange(60, dtype=np.float32)
    return {"a": torch.from_numpy(array), "b": torch.from_numpy(array), "part": torch.from_numpy(array[20:40])}


@case()
def from_numpy_overlapping() -> Any:
    array = np.arange(60, dtype=np.int64)
    return [torch.from_numpy(array[5:20]), torch.from_numpy(array[10:30]), torch.from_numpy(array[40:45])]


@case(torch_saves=False)
def two_dtypes() -> Any:
    base = floats(16)
    return {"floats": base, "ints": base.view(torch.int32), "bytes": base.view(torch.uint8)[8:12]}


@case(torch_saves=False)
def real_and_imaginary() -> Any:
    z = floats(10, dtype=torch.complex64)
    return {"z": z, "real": z.real, "imag": z.imag, "pairs": torch.view_as_real(z)[2:4], "neg": z.conj().imag}


@case(torch_saves=False)
def two_dtypes_with_gaps() -> Any:
    base = floats(100)
    return {"floats": base[10:14], "halves": base[12:20].view(torch.float16), "longs": base[50:54].view(torch.int64)}


@case(torch_saves=False)
def two_dtypes_through_numpy() -> Any:
    array = np.arange(32, dtype=np.float64)
    return [
        torch.from_numpy(array[4:8]),
        torch.from_numpy(array.view(np.int32)),
        torch.from_numpy(array.view(np.uint16))[9:],
    ]


@case(torch_saves=False)
def two_dtypes_of_a_parameter() -> Any:
    weight = nn.Parameter(floats(8))
    return {"weight": weight, "bits": weight.detach().view(torch.int32)}


@case()
def two_new_dtypes() -> Any:
    base = torch.arange(64, dtype=torch.uint8)
    return {"e4m3": base[8:16].view(torch.float8_e4m3fn), "e5m2": base.view(torch.float8_e5m2)[12:20]}


# storages by themselves


@case()
def typed_storage() -> Any:
    return {"storage": _typed(floats(10)), "tensor": floats(2)}


@case()
def untyped_storage() -> Any:
    return floats(10)[2:4].untyped_storage()


@case()
def storage_and_views() -> Any:
    base = floats(30)
    return {"storage": _typed(base), "a": base[4:6], "b": base[5:9]}


@case(torch_saves=False)
def untyped_storage_and_views() -> Any:
    base = floats(30)
    return {"storage": base.untyped_storage(), "a": base[4:6], "b": base[5:9]}


def _typed(tensor: torch.Tensor) -> torch.TypedStorage:
    return torch.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
