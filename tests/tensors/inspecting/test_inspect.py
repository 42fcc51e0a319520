"""`inspect`: what a file is, what it stores, reaches and wastes, who shares, what it needs, and what is damaged."""

import io
import math
import os
import sys
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cordwood as cw
from cordwood.common.text import human
from cordwood.tensors.inspecting.importable import can_import
from tests.tensors.loading.test_peek import legacy, write, write_safetensors
from tests.tensors.support.same import sharing


class Net(torch.nn.Module):
    """A model whose class is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)


def saved(obj: Any, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def rows(inspection: cw.Inspection) -> dict[str, Any]:
    return {row.name: row for row in inspection.tensors}


def test_waste_is_told_with_what_to_do(tmp_path: Path) -> None:
    batch = torch.zeros(50, 1000, 1000)
    torch.save(batch[3, :350], tmp_path / "x.pt")
    inspection = cw.inspect(tmp_path / "x.pt")
    size = (tmp_path / "x.pt").stat().st_size
    (tmp_path / "x.pt").unlink()  # 200 MB that nobody needs any more
    (row,) = inspection.tensors
    assert (row.name, row.shape, row.dtype) == ("", (350, 1000), torch.float32)
    assert (row.in_memory, row.reachable, row.wasted) == (200_000_000, 1_400_000, 198_600_000)
    assert (inspection.in_memory, inspection.reachable, inspection.wasted) == (200_000_000, 1_400_000, 198_600_000)
    assert inspection.advice == [
        f"198.6 MB of 200.0 MB is unreachable: cordwood trim {tmp_path / 'x.pt'} -o {tmp_path / 'x-small.pt'}",
    ]
    assert (inspection.kind, inspection.format) == ("tensor", "pt")
    assert inspection.file_size == size
    assert inspection.path == str(tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("name", "given", "advised"),
    [
        ("a.b.ckpt", "a.b.ckpt", "a.b-small.ckpt"),
        ("bare", "bare", "bare-small.pt"),
        ("my file.pt", "'my file.pt'", "'my file-small.pt'"),
        ("deep/x.pt", "deep/x.pt", "deep/x-small.pt"),
    ],
)
def test_what_is_advised_to_be_written_is_named_after_the_file(
    name: str, given: str, advised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    torch.save(torch.zeros(1000)[:10], name)
    (advice,) = cw.inspect(name).advice
    assert advice.endswith(f": cordwood trim {given} -o {advised}")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("torch", "pt"),
        ("ours", "pt"),
        ("legacy", "pt-legacy"),
        ("zipped again", "pt inside a zip"),
        ("compressed", "pt compressed"),
        ("cord", "cord"),
    ],
)
def test_every_format_is_told_and_counted_alike(written: str, told: str, tmp_path: Path) -> None:
    base = torch.zeros(1000, 8)
    path = write(written, tmp_path, {"a": base[:, :4], "b": base[:, 2:5], "t": torch.arange(1000.0)})
    inspection = cw.inspect(path)
    assert inspection.format == told
    assert inspection.damaged == []
    found = rows(inspection)
    assert {name: row.reachable for name, row in found.items()} == {"a": 16_000, "b": 12_000, "t": 4000}
    assert {name: row.shared_with for name, row in found.items()} == {"a": ["b"], "b": ["a"], "t": []}
    assert inspection.in_memory == sum({row.storages: row.in_memory for row in inspection.tensors}.values())
    assert inspection.in_memory == 4000 + (32_000 if written in ("torch", "legacy") else 20_000)
    assert not found["a"].contiguous
    assert found["t"].contiguous
    if written in ("compressed", "cord"):
        assert found["a"].in_file < found["a"].in_memory
        assert found["a"].codec not in ("stored", "raw")
        assert inspection.in_file < inspection.in_memory
        assert f" in memory, {human(inspection.in_file)} in the file, " in str(inspection)
    else:
        assert inspection.in_file == inspection.in_memory
        assert "in the file" not in str(inspection)
        assert found["a"].in_file == found["a"].in_memory
        assert found["a"].codec == "stored"


def test_safetensors(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", {"w": torch.ones(3, 4), "n": torch.arange(4)})
    inspection = cw.inspect(path)
    assert (inspection.format, inspection.kind, inspection.checks) == (
        "safetensors",
        "state_dict",
        "the format has no checksums",
    )
    assert [(row.name, row.shape, row.in_memory, row.wasted) for row in inspection.tensors] == [
        ("w", (3, 4), 48, 0),
        ("n", (4,), 32, 0),
    ]
    assert (inspection.in_memory, inspection.reachable) == (80, 80)
    assert inspection.metadata == {"made": "by hand"}
    assert inspection.globals == []


LINEAR = torch.nn.Linear(3, 2)
ADAM = torch.optim.SGD(LINEAR.parameters(), momentum=0.9)


@pytest.mark.parametrize(
    ("obj", "kind"),
    [
        (torch.ones(3), "tensor"),
        (torch.nn.Parameter(torch.ones(3)), "tensor"),
        (LINEAR.state_dict(), "state_dict"),
        ({"w": torch.ones(3)}, "state_dict"),
        (OrderedDict(w=torch.ones(3)), "state_dict"),
        ({"model": LINEAR.state_dict(), "optimizer": ADAM.state_dict(), "epoch": 3}, "training checkpoint"),
        ({"state_dict": LINEAR.state_dict(), "global_step": 7}, "training checkpoint"),
        ({"model": LINEAR, "epoch": 3}, "training checkpoint with a whole model"),
        ({"net": LINEAR}, "whole model in a dict"),
        (LINEAR, "whole model"),
        (Net(), "whole model"),
        (ADAM.state_dict(), "optimizer state_dict"),
        ([torch.ones(3), torch.ones(2)], "tensors in a list"),
        ((torch.ones(3), "label"), "tensors in a tuple"),
        ({"images": [torch.ones(3)], "label": 5}, "tensors in a dict"),
        ({3: torch.ones(3)}, "tensors in a dict"),
        ({"a": 1}, "no tensors in a dict"),
        (torch.ones(3).untyped_storage(), "storage"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_kind_of_file_it_is(obj: Any, kind: str) -> None:
    assert cw.inspect(saved(obj)).kind == kind
    assert cw.inspect(saved(obj, _use_new_zipfile_serialization=False)).kind == kind


def test_a_whole_model_is_bound_to_its_class() -> None:
    inspection = cw.inspect(saved(Net()))
    name = f"{__name__}.Net"
    assert inspection.bound_to == [name]
    assert f"bound to {name}; save state_dict() instead" in inspection.advice
    needed = {str(each): each for each in inspection.globals}
    assert needed[name].imports
    assert not needed[name].safe
    assert needed["torch._utils._rebuild_parameter"].safe
    with torch.serialization.safe_globals([Net]):
        assert {str(each): each.safe for each in cw.inspect(saved(Net())).globals}[name]
    lines = str(inspection).splitlines()
    assert f"needs     {name}" in lines
    assert "          torch.nn.modules.linear.Linear" in lines
    assert inspection.advice[1].startswith("load refuses 2 names")


def test_a_class_that_is_not_there_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(Net())
    monkeypatch.delattr(sys.modules[__name__], "Net")
    assert f"needs     {__name__}.Net (cannot be imported here)" in str(cw.inspect(file)).splitlines()


def test_whether_a_class_is_there_is_told_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lazy_package"
    (package / "inner").mkdir(parents=True)
    for file in (package / "__init__.py", package / "inner" / "__init__.py", package / "inner" / "net.py"):
        file.write_text("raise SystemExit('this must not run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert can_import("lazy_package", "Net")
    assert can_import("lazy_package.inner.net", "Net")
    assert not can_import("lazy_package.inner.other", "Net")
    assert not can_import("lazy_package.inner.net.deeper", "Net")
    assert not can_import("no_such_package_at_all", "Net")
    assert "lazy_package" not in sys.modules
    assert can_import("collections", "OrderedDict")
    assert not can_import("collections", "NoSuchThing")
    for hostile in ("", ".", "..", "a..b", "../../etc", "a/b", "a b", "\0", "lazy_package.../inner", "x" * 100_000):
        assert not can_import(hostile, "x")


class Unsafe:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_legacy", [False, True])
def test_no_code_of_the_file_runs(is_legacy: bool, tmp_path: Path) -> None:
    file = saved({"evil": Unsafe(tmp_path / "made"), "w": torch.ones(3)}, _use_new_zipfile_serialization=not is_legacy)
    inspection = cw.inspect(file)
    print(inspection, inspection._repr_html_())
    assert not (tmp_path / "made").exists()
    assert [row.name for row in inspection.tensors] == ["w"]
    assert [str(each) for each in inspection.globals if not each.safe] == ["posix.mkdir"]


def test_what_shares_is_told_by_bytes_and_not_by_hulls() -> None:
    base = torch.zeros(100, 8)
    tree = {
        "left": base[:, :4],
        "right": base[:, 4:],
        "middle": base[:, 3:5],
        "row": base[7],
        "left again": base[:, :4],
        "as integers": base.view(torch.int32)[50:, 7:],
        "apart": torch.zeros(3),
    }
    inspection = cw.inspect(saved({name: tensor for name, tensor in tree.items() if name != "as integers"}))
    pairs = {(row.name, other) for row in inspection.tensors for other in row.shared_with}
    expected = sharing({name: tensor for name, tensor in tree.items() if name != "as integers"})
    assert pairs == {pair for one, other in expected for pair in ((one, other), (other, one))}
    buffer = io.BytesIO()
    cw.save(tree, buffer)
    buffer.seek(0)
    found = rows(cw.inspect(buffer))
    assert found["as integers"].shared_with == ["right"]
    assert found["left"].shared_with == ["middle", "row", "left again"]


@st.composite
def trees(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """Views of one to three storages, of any shape and stride that fits."""
    tree = {}
    for storage in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, 60))
        base = torch.arange(float(length))
        for view in range(draw(st.integers(1, 4))):
            offset = draw(st.integers(0, length - 1))
            shape, strides, left = [], [], length - 1 - offset
            for _ in range(draw(st.integers(0, 3))):
                stride = draw(st.integers(0, 8))
                count = draw(st.integers(0, min(4, left // stride + 1 if stride else 3)))
                left -= max(count - 1, 0) * stride
                shape.append(count)
                strides.append(stride)
            tree[f"{storage}.{view}"] = base.as_strided(shape, strides, offset)
    return tree


@given(trees())
def test_sharing_and_waste_of_any_views(tree: dict[str, torch.Tensor]) -> None:
    nested: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tree.items():
        nested.setdefault(name.partition(".")[0], {})[name.partition(".")[2]] = tensor
    file = saved(nested)
    inspection = cw.inspect(file)
    found = rows(inspection)
    assert {(a, b) for a, row in found.items() for b in row.shared_with} == {
        pair for one, other in sharing(nested) for pair in ((one, other), (other, one))
    }
    for name, tensor in tree.items():
        assert found[name].reachable == 4 * len(set(offsets_of(tensor)))
        assert found[name].contiguous == tensor.is_contiguous()
    # What is called waste is what trimming takes away.
    trimmed = io.BytesIO()
    cw.save(torch.load(file), trimmed)
    trimmed.seek(0)
    after = cw.inspect(trimmed)
    assert (after.in_memory, after.wasted) == (inspection.reachable, 0)


def offsets_of(tensor: torch.Tensor) -> list[Any]:
    if not tensor.numel():
        return []
    offsets: list[Any] = [tensor.storage_offset()]
    for count, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = [offset + step * stride for offset in offsets for step in range(count)]
    return offsets


@pytest.mark.slow
def test_many_tensors_on_one_storage_take_no_longer_than_they_should() -> None:
    one = torch.ones(4)
    inspection = cw.inspect(saved([one] * 20_000))
    assert len(inspection.tensors) == 20_000
    assert len(inspection.tensors[0].shared_with) == 19_999
    assert "shares with 1, 2 +19997" in str(inspection)
    row = inspection.to_dict()["tensors"][7]
    assert row["shared_with"] == [str(i) for i in range(101) if i != 7]
    assert row["shared_with_count"] == 19_999


@pytest.mark.slow
def test_very_many_overlapping_views_count_as_one_group() -> None:
    base = torch.zeros(4000)
    inspection = cw.inspect(saved([base[i : i + 2000] for i in range(1500)]))
    assert {row.partner_count for row in inspection.tensors} == {1499}
    assert len(inspection.tensors[0].shared_with) == 1499


def test_a_storage_that_something_else_holds_counts_in_full() -> None:
    base = torch.zeros(1000)
    assert cw.inspect(saved({"x": base[:10]})).wasted == 3960
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typed storages are deprecated, and still in files
        held = cw.inspect(saved({"x": base[:10], "all": base.storage()}))
    assert (held.wasted, held.tensors[0].wasted, held.tensors[0].reachable) == (0, 0, 40)


def test_records_that_nothing_refers_to_are_waste(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"w": torch.ones(10)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x/data/99", bytes(500))
    inspection = cw.inspect(path)
    assert (inspection.in_memory, inspection.reachable, inspection.wasted) == (540, 40, 500)


def test_the_tripwire_of_a_compressed_file_is_not_a_tensor(tmp_path: Path) -> None:
    cw.save({"z": torch.zeros(10_000), "r": torch.ones(100)}, tmp_path / "x.pt", compress=True)
    inspection = cw.inspect(tmp_path / "x.pt")
    assert [row.reachable for row in inspection.tensors] == [40_000, 400]
    assert (inspection.in_memory, inspection.wasted) == (40_400, 0)
    assert "compressed records cannot be mapped (mmap=True)" in inspection.advice


def test_files_without_checksums_are_not_called_damaged(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(10)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    inspection = cw.inspect(tmp_path / "x.pt")
    assert (inspection.damaged, inspection.checks) == ([], "the file was written without checksums")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_program_is_told_as_such(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(LINEAR), tmp_path / "x.pt")
    inspection = cw.inspect(tmp_path / "x.pt")
    assert (inspection.format, inspection.kind) == ("torchscript", "a program with its weights")
    assert any(record.name.endswith("constants.pkl") for record in inspection.records)
    assert inspection.damaged == []
    assert "torch.jit.load" in inspection.advice[0]
    assert "constants.pkl" in str(inspection)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"hello, this is no tensor file", b"\x80\x02K\x01."])
def test_only_what_holds_nothing_is_refused(data: bytes) -> None:
    with pytest.raises(cw.FormatError):
        cw.inspect(io.BytesIO(data))


def test_an_archive_of_something_else_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "text")
        archive.writestr("b.txt", "text")
    buffer.seek(0)
    with pytest.raises(cw.FormatError, match="not of tensors"):
        cw.inspect(buffer)


def test_the_old_format_is_told_with_what_to_do(tmp_path: Path) -> None:
    legacy({"w": torch.ones(3)}, tmp_path / "x.pt")
    (advice,) = cw.inspect(tmp_path / "x.pt").advice
    assert advice.endswith(f"cordwood trim {tmp_path / 'x.pt'} -o {tmp_path / 'x-new.pt'}")


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    for name in ("x.pt", "x.cord"):
        cw.save([torch.randn(1000) for _ in range(5)], tmp_path / name)
        steps: list[tuple[int, int]] = []
        cw.inspect(tmp_path / name, progress=lambda *step, steps=steps: steps.append(step))
        assert steps == sorted(steps)
        assert len(steps) >= 5
        assert steps[-1][0] == steps[-1][1]


def test_a_dict_for_json_has_everything() -> None:
    told = cw.inspect(saved({"w": torch.ones(2, 3).t()})).to_dict()
    (row,) = told["tensors"]
    assert row["shape"] == [3, 2]
    assert (row["dtype"], row["contiguous"], row["codec"]) == ("float32", False, "stored")
    assert told["wasted"] == 0
    assert {"name": "torch.FloatStorage", "safe": True, "imports": True} in told["globals"]
    assert math.isclose(told["file_size"], cw.inspect(saved({"w": torch.ones(2, 3).t()})).file_size)
