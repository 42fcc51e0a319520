"""The plain reader reads what the package writes, whatever is drawn; damaged files never end otherwise than refused."""

import contextlib
import io
import zipfile
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.codecs import Goal
from cordwood.errors import FormatError
from cordwood.tensors import load, save
from tests.format.support.readers import ROOT
from tests.format.tensors.craft_tensors import archive
from tests.format.tensors.tensor_readers import READERS, REFUSALS, plain, read_plain
from tests.golden.tensors.objects import bits
from tests.tensors.support.same import assert_same, assert_shares_alike

DTYPES = [
    torch.bool, torch.uint8, torch.int16, torch.int64, torch.float32, torch.bfloat16, torch.float8_e5m2, torch.uint16,
    torch.complex64, torch.complex128,
]  # fmt: skip
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")
GOLDEN_FILES = sorted((ROOT / "tests" / "golden" / "tensors" / "files").glob("*.cord"))


def written(obj: Any, goal: Goal = "balanced") -> bytes:
    file = io.BytesIO()
    save(obj, file, format="cord", goal=goal)
    return file.getvalue()


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """A small one, of smooth or any values."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 9), max_size=3))
    count = torch.Size(shape).numel()
    if draw(st.booleans()):
        return torch.arange(count).remainder(7).to(dtype).reshape(shape)
    return (bits(dtype, count) if count else torch.zeros(0, dtype=dtype)).reshape(shape)


@st.composite
def views(draw: st.DrawFn) -> list[torch.Tensor]:
    """A tensor, and what can be seen of its memory in other ways."""
    tensor = draw(tensors())
    found = [tensor]
    for _ in range(draw(st.integers(0, 3))):
        view = draw(st.sampled_from(found))
        if view.dim() and draw(st.booleans()):
            axis = draw(st.integers(0, view.dim() - 1))
            start = draw(st.integers(0, view.shape[axis]))
            step = draw(st.integers(1, 3))
            view = view[(slice(None),) * axis + (slice(start, None, step),)]
        elif draw(st.booleans()):
            view = view.permute(tuple(reversed(range(view.dim()))))
        else:
            view = view.expand(2, *view.shape)
        found.append(view)
    return draw(st.permutations(found))[: draw(st.integers(1, 4))]


objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(min_size=1) | tensors(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.lists(views(), min_size=1, max_size=3), objects, st.sampled_from(GOALS))
def test_any_object(groups: list[list[torch.Tensor]], rest: Any, goal: Goal) -> None:
    obj = {"groups": groups, "rest": rest}
    found = read_plain(written(obj, goal))
    assert_same(obj, found, strides=False)
    assert_shares_alike(groups, found["groups"])


@pytest.mark.filterwarnings("ignore:cw.load will refuse")
def test_what_is_not_known_is_described() -> None:
    class_of_ours = torch.nn.Linear(2, 1)
    found = plain.read(written([class_of_ours, torch.empty(3, device="meta"), torch.ones(2).to_sparse()]))
    module, meta, sparse = found
    assert str(module.function) == "torch.nn.modules.linear.Linear"
    weight = module.states[0]["_parameters"]["weight"]
    assert (weight.kind, weight.requires_grad, weight.array.shape) == ("torch.nn.parameter.Parameter", True, (1, 2))
    assert str(meta.function) == "torch._utils._rebuild_meta_tensor_no_storage"
    layout, (indices, values, size, _) = sparse.arguments
    assert layout.arguments == ("torch.sparse_coo",)
    assert (indices.array.tolist(), values.array.tolist(), size) == ([[0, 1]], [1.0, 1.0], (2,))


def test_it_needs_neither_torch_nor_the_package() -> None:
    source = (ROOT / "docs" / "format" / "tensor_reader.py").read_text(encoding="utf-8")
    imported = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert {name for name in imported if name.split(".")[0] in ("torch", "cordwood")} == set()


def test_a_path_will_do() -> None:
    path = ROOT / "tests" / "golden" / "tensors" / "files" / "example.cord"
    assert plain.read(str(path))["w"].array.tolist() == plain.read(path.read_bytes())["w"].array.tolist()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=150)
@given(st.data())
def test_damage_is_refused_or_harmless(reader: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in GOLDEN_FILES if path.stem not in ("parts", "more-containers")]))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    try:
        found = READERS[reader](damaged)
    except REFUSALS[reader]:
        return
    # What lets a file through changed nothing that counts: the mark's content, dates, padding of headers.
    assert_same(READERS[reader](path.read_bytes()), found)


def _changed(draw: st.DrawFn, part: bytes) -> bytes:
    """Some bytes changed, left out, or there twice."""
    changed = bytearray(part)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed) - 1))
        count = draw(st.integers(0, 4))
        changed[at : at + count] = draw(st.binary(max_size=4) | st.just(bytes(changed[at : at + 8])))
        if not changed:
            break
    return bytes(changed)


@st.composite
def forged(draw: st.DrawFn) -> bytes:
    """A golden file whose pickle or manifest was changed by somebody who made the checksums right again."""
    whole = plain.Archive(draw(st.sampled_from(GOLDEN_FILES)).read_bytes())
    entries = {name: whole.content(name) for name in whole.entries}
    name = draw(st.sampled_from(["data.pkl", "manifest.json"]))
    entries[name] = _changed(draw, entries[name])
    return archive(list(entries.items()))


@pytest.mark.filterwarnings("ignore")  # torch warns of some of its own dtypes and layouts
@settings(max_examples=300)
@given(forged())
def test_forged_files_are_refused_or_read(file: bytes) -> None:
    with contextlib.suppress(plain.BadFile):
        plain.read(file, limit=2**24)
    with contextlib.suppress(FormatError):
        load(io.BytesIO(file), mmap=False, map_location="cpu", limit=2**24)


@pytest.mark.parametrize("reader", READERS)
def test_many_tensors_are_told_of_in_deflated_entries(reader: str) -> None:
    tensors = {f"layer.{number}.bias": torch.full((3,), float(number)) for number in range(200)}
    data = written(tensors)
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        methods = {entry.filename: entry.compress_type for entry in opened.infolist()}
    assert methods["data.pkl"] == methods["manifest.json"] == zipfile.ZIP_DEFLATED
    assert methods["data/7.0"] == zipfile.ZIP_STORED
    assert_same(READERS[reader](data), tensors)
