"""Pickles are changed in a few numbers; what is not understood stays as it is."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from tests.tensors.support import craft
from tests.tensors.support.objects import QUIET
from tests.tensors.support.same import assert_same
from tests.tensors.support.trimmed import crafted, records, storages, view

pytestmark = QUIET


# what is not understood is left alone


@pytest.mark.parametrize(
    ("opcodes", "kept"),
    [
        ([view()], 24),
        ([view() + b"0" + view()], 160),  # one that was made and dropped
        ([craft.storage("0", 40) + b"0" + view()], 160),  # a storage that was asked for and dropped
        ([craft.value([view(), craft.storage("0", 40)])], 160),  # a storage by itself
        ([craft.value([view(), craft.call("mypackage.use", craft.storage("0", 40), 3)])], 160),
        ([craft.value([view(), craft.call("torch._utils._rebuild_tensor_v2", craft.storage("0", 40))])], 160),
        ([craft.value([view(), {"key": (craft.storage("0", 40), 1)}])], 160),
        ([craft.value([view(), view(size=(2.0, 3))])], 160),
        ([craft.value([view(), view(offset=True)])], 160),
        ([craft.value([view(), view(size=[2, 3])])], 160),
        (
            [craft.value([view(), craft.call("torch._utils._rebuild_tensor", craft.storage("0", 40), 0, (1,), (1,))])],
            28,
        ),
        ([craft.value([view(), view(kind="torch.IntStorage")])], 24),
        ([craft.value([view(), craft.tensor("0", 80, kind="torch.HalfStorage", size=(3,), offset=70)])], 32),
        ([view(offset=b"K\x0ar\x07\x00\x00\x00")], 160),  # an offset in the memo
        ([view(offset=b"N0K\x0a")], 24),  # something that is gone before it
        ([view(offset=b"K\x0aN0")], 160),  # and behind it
        ([view(size=(5, 3), stride=(10, 2))], 160),  # reaches beyond its end
    ],
    ids=range(17),
)
def test_storages_that_anything_else_sees_stay_whole(opcodes: list[bytes], kept: int, tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", *opcodes)
    cw.trim(path, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": kept}
    if kept == 160:  # nothing was changed
        assert records(tmp_path / "small.pt")["data.pkl"] == records(path)["data.pkl"]


def test_unknown_types_and_dtypes(tmp_path: Path) -> None:
    """A tensor type of a package that is not there is known by torch's function; an unknown dtype is not."""
    arguments = (craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS)
    typed = craft.call(
        "torch._tensor._rebuild_from_type_v2",
        craft.glob("torch._utils._rebuild_tensor_v2"),
        craft.glob("mypackage.Tensor"),
        craft.tup(*arguments),
        {},
    )
    for opcodes, kept in [
        (typed, 24),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("torch.float32")), 24),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("torch.float77")), 160),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments, craft.glob("mypackage.float32")), 160),
        (craft.call("torch._utils._rebuild_tensor_v3", *arguments), 160),
        (craft.call("mypackage._rebuild_tensor_v2", *arguments), 160),
    ]:
        crafted(tmp_path / "x.pt", opcodes)
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def strided_by(stride: bytes, *others: Any, before: bytes = b"") -> bytes:
    return before + craft.value([view(stride=stride), *others])


IN_MEMO = craft.tup(10, 2) + craft.put(5)


@pytest.mark.parametrize(
    ("opcodes", "kept", "strides"),
    [
        (strided_by(IN_MEMO), 24, (3, 1)),
        (strided_by(IN_MEMO, craft.get(5)), 60, (10, 2)),  # used elsewhere as what it is
        (strided_by(IN_MEMO, view(stride=craft.get(5))), 60, (10, 2)),  # by another tensor
        (craft.value([craft.tup(10, 2) + craft.put(5), view(stride=craft.get(5))]), 24, (3, 1)),  # taken from elsewhere
        (strided_by(b"K\x0a" + craft.put(5) + b"K\x02\x86", 3), 60, (10, 2)),  # one of its numbers is in the memo
        (strided_by(b"N0" + craft.tup(10, 2)), 24, (3, 1)),
        (strided_by(craft.tup(10, 2) + b"N0"), 60, (10, 2)),  # and something is done behind it
    ],
    ids=range(7),
)
def test_strides_that_are_used_elsewhere_stay(
    opcodes: bytes, kept: int, strides: tuple[int, ...], tmp_path: Path
) -> None:
    path = crafted(tmp_path / "x.pt", opcodes)
    before = torch.load(path, weights_only=False)
    cw.trim(path, tmp_path / "small.pt")
    assert storages(tmp_path / "small.pt") == {"0": kept}
    after = torch.load(tmp_path / "small.pt", weights_only=False)
    assert_same(before, after, strides=False)
    assert next(one for one in after if isinstance(one, torch.Tensor)).stride() == strides


def test_arguments_that_are_used_elsewhere_stay(tmp_path: Path) -> None:
    """A tuple of arguments that the file also keeps as a value must not change."""
    arguments = craft.tup(craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS) + craft.put(9)
    rebuild = craft.glob("torch._utils._rebuild_tensor_v2")
    for opcodes, kept in [
        (rebuild + arguments + b"R", 24),
        (craft.value([rebuild + arguments + b"R", rebuild + craft.get(9) + b"R"]), 24),  # the same view twice
        (craft.value([rebuild + arguments + b"R", craft.get(9)]), 160),
        (craft.value([rebuild + arguments + b"R", craft.glob("mypackage.f") + craft.get(9) + b"R"]), 160),
    ]:
        path = crafted(tmp_path / "x.pt", opcodes)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}
    identity = craft.tup("storage", craft.glob("torch.FloatStorage"), "0", "cpu", 40) + craft.put(9)
    seen = craft.call("torch._utils._rebuild_tensor_v2", identity + b"Q", 0, (3,), (1,), False, craft.EMPTY_HOOKS)
    for opcodes, kept in [
        (seen, 12),
        (craft.value([seen, craft.get(9)]), 160),
        (craft.value([seen, craft.get(9) + b"Q"]), 160),
    ]:
        path = crafted(tmp_path / "x.pt", opcodes)
        cw.trim(path, tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def test_types_of_tensors_whose_arguments_are_used_elsewhere(tmp_path: Path) -> None:
    inner = craft.tup(craft.storage("0", 40), 10, (2, 3), (10, 2), False, craft.EMPTY_HOOKS) + craft.put(8)
    outer = craft.tup(craft.glob("torch._utils._rebuild_tensor_v2"), craft.glob("mypackage.T"), inner, {}) + craft.put(
        9
    )
    call = craft.glob("torch._tensor._rebuild_from_type_v2") + outer + b"R"
    for opcodes, kept in [
        (call, 24),
        (craft.value([call, craft.get(8)]), 160),
        (craft.value([call, craft.get(9)]), 160),
    ]:
        cw.trim(crafted(tmp_path / "x.pt", opcodes), tmp_path / "small.pt")
        assert storages(tmp_path / "small.pt") == {"0": kept}


def test_records(tmp_path: Path) -> None:
    """Others' records stay, those that nobody refers to go, and those of the layout are written anew."""
    extra = {
        "version": b"7\n",
        "extra/config.json": b"{}",
        ".data/serialization_id": b"1" * 40,
        ".format_version": b"1",
        ".storage_alignment": b"128",
        "data/": b"",
    }
    path = crafted(
        tmp_path / "x.pt", view(), content={"0": bytes(160), "7": bytes(900)}, extra=extra, prefix="their name"
    )
    cw.trim(path, tmp_path / "small.pt")
    found = records(tmp_path / "small.pt")
    layout = {".format_version", ".storage_alignment", ".data/serialization_id"}
    assert found.keys() == {"data.pkl", "byteorder", "data/0", "version", "extra/config.json"} | layout
    assert found[".storage_alignment"] == b"64"
    assert found["version"] == b"7\n"
    assert found["extra/config.json"] == b"{}"
    with zipfile.ZipFile(tmp_path / "small.pt") as archive:
        assert all(name.startswith("their name/") for name in archive.namelist())
    assert torch.load(tmp_path / "small.pt").shape == (2, 3)
    assert "extra" not in str(cw.trim(path, tmp_path / "small.cord"))


@pytest.mark.parametrize("location", ["cuda:1", "mps", "cpu"])
def test_locations_stay(location: str, tmp_path: Path) -> None:
    seen = craft.storage("0", 40, location=location)
    tensor = craft.call("torch._utils._rebuild_tensor_v2", seen, 3, (2,), (1,), False, craft.EMPTY_HOOKS)
    cw.trim(crafted(tmp_path / "x.pt", tensor), tmp_path / "small.pt")
    told = []

    def stay(storage: Any, location: str) -> Any:
        told.append(location)
        return storage

    assert torch.load(tmp_path / "small.pt", map_location=stay).untyped_storage().nbytes() == 8
    assert told == [location]


def test_a_storage_that_is_only_called_tripwire_is_one(tmp_path: Path) -> None:
    content = {"tripwire": bytes(range(100)) * 40}
    for tensor, kept in [
        (craft.tensor("tripwire", 4000, kind="torch.ByteStorage", size=(4000,)), 4000),
        (craft.tensor("tripwire", 4000, kind="torch.ByteStorage", size=(10,), offset=5), 10),
        (craft.storage("tripwire", 4000, kind="torch.ByteStorage"), 4000),
    ]:
        path = crafted(tmp_path / "x.pt", tensor, content=content)
        for compress in (None, True):
            cw.trim(path, tmp_path / "small.pt", compress=compress)
            assert storages(tmp_path / "small.pt") == {"tripwire": kept}
            before, after = torch.load(path), torch.load(tmp_path / "small.pt")
            assert before.tolist() == after.tolist()


@pytest.mark.parametrize(
    "opcodes",
    [
        view(size=(-2, 3)),
        view(offset=-1),
        view(stride=(-1, 1)),
        craft.tensor("1", 40),
        craft.tensor("0", 41),
        craft.tensor("0", "40"),
        craft.tensor("0", 40, kind="torch.StrangeStorage"),
        craft.persistent("storage", 1),
        craft.persistent(),
        craft.value([1]) + b"Q",
        craft.persistent("thing", 1, 2, 3, 4),
        craft.persistent("storage", 1, "0", "cpu", 40),
        b"",
        view() + view(),
    ],
    ids=range(14),
)
def test_pickles_that_make_no_sense_are_refused(opcodes: bytes, tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", opcodes)
    for options in ({"dst": tmp_path / "small.pt"}, {"in_place": True}, {"dry_run": True}):
        with pytest.raises(cw.FormatError):
            cw.trim(path, **options)
    assert not (tmp_path / "small.pt").exists()


def test_classes_with_their_source_are_no_storages(tmp_path: Path) -> None:
    module = craft.persistent("module", craft.glob("mypackage.Net"), "net.py", "class Net: ...")
    over = craft.call("torch._utils._rebuild_tensor_v2", module, 0, (1,), (1,), False, craft.EMPTY_HOOKS)
    for opcodes in (module, over):
        for data in (craft.legacy(opcodes), craft.archive(craft.pickled(opcodes))):
            (tmp_path / "x.pt").write_bytes(data)
            cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
            assert b"class Net" in records(tmp_path / "small.pt")["data.pkl"]


def test_pickles_of_python_are_compared(tmp_path: Path) -> None:
    """Every byte of the pickle but the numbers stays: also what the standard pickler would write in another way."""
    pickled = craft.pickled(craft.value({"a": view(), "b": b"\x8c\x05hello", "c": b"U\x03old", "d": b"N\x85"}))
    path = tmp_path / "x.pt"
    path.write_bytes(craft.archive(pickled, {"0": bytes(160)}))
    cw.trim(path, tmp_path / "small.pt")
    changed = view(offset=0, stride=b"K\x03K\x01\x86").replace(b"K\x28tQ", b"K\x06tQ")
    wanted = craft.pickled(craft.value({"a": changed, "b": b"\x8c\x05hello", "c": b"U\x03old", "d": b"N\x85"}))
    assert records(tmp_path / "small.pt")["data.pkl"] == wanted
    assert pickle.loads(wanted.replace(view(), b"N").replace(changed, b"N"))["b"] == "hello"
