"""What a tape tells of tensors and operations, beside torch's own word."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doctor.evidence.tape import Op, Ref, TensorMeta, references, written


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    return TensorMeta(0, tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, 0, 0, 0)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), min_size=0, max_size=5))
    tensor = torch.empty(shape)
    tensor = tensor.permute(draw(st.permutations(range(len(shape)))))
    for axis in range(tensor.dim()):
        tensor = tensor.narrow(axis, 0, draw(st.integers(0, tensor.shape[axis])))
    return tensor


@given(tensors())
def test_layouts_are_told_as_torch_tells_them(tensor: torch.Tensor) -> None:
    meta = meta_of(tensor)
    assert meta.is_contiguous == tensor.is_contiguous()
    if tensor.dim() == 4 and tensor.numel():
        assert meta.is_channels_last == tensor.is_contiguous(memory_format=torch.channels_last)
    if tensor.dim() == 5 and tensor.numel():
        assert meta.is_channels_last == tensor.is_contiguous(memory_format=torch.channels_last_3d)
    if tensor.dim() < 4:
        assert not meta.is_channels_last


def test_references_are_found_wherever_they_are() -> None:
    structure = ([Ref(1), 2.0, (Ref(3), None)], {"out": Ref(4), "dim": 5})
    assert list(references(structure)) == [1, 3, 4]


def op(func: object, *arguments: object, **options: object) -> Op:
    return Op("", func, "forward", None, "", [], [], (arguments, options), None, 0)


def test_what_an_operation_writes_to() -> None:
    aten = torch.ops.aten
    assert written(op(aten.add.Tensor, Ref(1), Ref(2))) == set()
    assert written(op(aten.add_.Tensor, Ref(1), Ref(2))) == {1}
    assert written(op(aten.add.out, Ref(1), Ref(2), out=Ref(3))) == {3}
    assert written(op(aten._foreach_add_.List, [Ref(1), Ref(2)], [Ref(3), Ref(4)])) == {1, 2}
