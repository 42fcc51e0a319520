"""`save`: what it takes, what it refuses and in which words, and how small files become."""

import gc
import io
import os
import re
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.codecs import Goal
from tests.tensors.support.catalogue import CATALOGUE
from tests.tensors.support.objects import QUIET, floats
from tests.tensors.support.same import assert_same, assert_shares_alike

pytestmark = QUIET


def saved(obj: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    cw.save(obj, file, **options)
    return file.getvalue()


def loaded(obj: Any, **options: Any) -> Any:
    return cw.load(io.BytesIO(saved(obj, **options)))


def records(data: bytes | Path) -> dict[str, int]:
    """The storages of an archive, and their sizes."""
    with zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data) as archive:
        return {
            info.filename.partition("/data/")[2]: info.file_size
            for info in archive.infolist()
            if "/data/" in info.filename
        }


# reach


def test_a_slice_of_zeros_is_small() -> None:
    zeros = torch.zeros(1_000_000)[:1000]
    file = io.BytesIO()
    torch.save(zeros, file)
    assert file.tell() > 4_000_000
    assert len(saved(zeros)) < 6_000


def test_slices_of_a_batch_take_the_room_of_clones() -> None:
    batch = floats(16, 3, 32, 32)
    ours = sum(len(saved(batch[index])) for index in range(16))
    clones = sum(len(saved(batch[index].clone())) for index in range(16))
    assert ours == clones


@pytest.mark.parametrize(
    ("views", "kept"),
    [
        (lambda x: [x[3]], 40),
        (lambda x: [x[3], x[7]], 80),
        (lambda x: [x[3], x[3, :4]], 40),
        (lambda x: [x[:, :2], x[:, 2:4]], 20 * 4 * 4),
        (lambda x: [x[:, :5], x[:, 3:8]], 20 * 8 * 4),
        (lambda x: [x[::2, ::5]], 10 * 2 * 4),
        (lambda x: [x[5:5]], 0),
        (lambda x: [x[0, :1].expand(1000, 1000)], 4),
        (lambda x: [x.view(-1)[10:20].unfold(0, 5, 1)], 40),
        (lambda x: [x], 800),
        (lambda x: [x.t()], 800),
        (lambda x: [x[2, 3]], 4),
    ],
)
def test_only_reachable_bytes_are_kept(views: Any, kept: int) -> None:
    obj = views(floats(20, 10))
    assert records(saved(obj)) == {"0": kept}


def test_one_storage_stays_one_storage() -> None:
    base = floats(100)
    loaded_views = loaded([base[3:5], base[50:60]])
    assert len({view.untyped_storage()._cdata for view in loaded_views}) == 1
    assert loaded_views[0].untyped_storage().nbytes() == 48


def test_unreachable_bytes_are_zeroed() -> None:
    secret = torch.full((64,), 7, dtype=torch.uint8)
    views = [torch.as_strided(secret, (3, 2), (5, 3)), torch.as_strided(secret, (2, 3), (7, 2), 1)]
    file = saved(views)
    reached = {i * 5 + j * 3 for i in range(3) for j in range(2)} | {
        1 + i * 7 + j * 2 for i in range(2) for j in range(3)
    }
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        assert archive.read("archive/data/0").count(7) == len(reached)


def test_a_storage_saved_by_itself_is_kept_whole() -> None:
    base = floats(50)
    obj = {"storage": base.untyped_storage(), "view": base[3:5]}
    assert records(saved(obj)) == {"0": 200}


def test_a_tensor_below_a_byte_an_item() -> None:
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.0, 1.0, 2.0])
    quantized = torch.quantize_per_channel(floats(3, 4), scales, zeros, 0, torch.quint4x2)
    for options in ({}, {"format": "cord"}, {"compress": True}):
        assert torch.equal(loaded(quantized, **options).dequantize(), quantized.dequantize())
    assert torch.equal(torch.load(io.BytesIO(saved(quantized))).dequantize(), quantized.dequantize())


def test_a_tensor_whose_storage_was_freed_is_saved_as_torch_does() -> None:
    freed = floats(10)
    freed.untyped_storage().resize_(0)
    file = saved({"freed": freed, "kept": torch.ones(3)})
    assert records(file) == {"0": 0, "1": 12}
    assert torch.equal(cw.load(io.BytesIO(file), only="kept")["kept"], torch.ones(3))
    with pytest.raises(cw.FormatError, match="needs 40 bytes, but its storage has 0"):
        cw.load(io.BytesIO(file))


def test_slices_of_a_storage_are_one_memory() -> None:
    whole = floats(10).untyped_storage()
    inner = torch.empty(0).set_(whole[8:24], 0, (4,), (1,))
    outer = torch.empty(0).set_(whole, 0, (10,), (1,))
    result = loaded([inner, outer])
    assert_shares_alike([inner, outer], result)
    assert_same([inner, outer], result)


def test_a_module_is_left_as_it_was() -> None:
    weight = torch.nn.Parameter(floats(4, 4))
    weight.grad = torch.ones(4, 4)
    before = weight.untyped_storage().data_ptr()
    cw.save({"weight": weight[1:].detach(), "parameter": weight}, io.BytesIO(), compress=True)
    assert weight.untyped_storage().data_ptr() == before
    assert torch.equal(weight.grad, torch.ones(4, 4))
    assert weight.__dict__ == {}


# what cannot be


def test_storages_an_odd_number_of_bytes_apart() -> None:
    memory = np.arange(64, dtype=np.uint8)
    tensors = [torch.from_numpy(memory[:16].view(np.float32)), torch.from_numpy(memory[1:17].view(np.float32))]
    with pytest.raises(cw.UsageError, match="clone one of them"):
        saved(tensors)
    assert_same(tensors[1], loaded(tensors[1]))


def test_a_quantized_tensor_under_another_dtype() -> None:
    quantized = torch.quantize_per_tensor(floats(4), 0.1, 0, torch.qint8)
    plain = torch.empty(0, dtype=torch.uint8).set_(quantized.untyped_storage())
    with pytest.raises(cw.UsageError, match=r"quantized tensor shares its memory.*clone\(\)"):
        saved([quantized, plain])


def test_a_typed_storage_under_another_dtype() -> None:
    base = floats(4)
    storage = torch.TypedStorage(wrap_storage=base.untyped_storage(), dtype=torch.int32, _internal=True)
    with pytest.raises(cw.UsageError, match="under another dtype"):
        saved([storage, base])


def test_a_storage_of_a_dtype_without_a_storage_class() -> None:
    storage = torch.TypedStorage(wrap_storage=torch.UntypedStorage(8), dtype=torch.uint16, _internal=True)
    with pytest.raises(cw.UsageError, match=r"torch.uint16.*save a tensor over it"):
        saved(storage)


def test_a_storage_and_another_over_a_part_of_it() -> None:
    whole = floats(10).untyped_storage()
    with pytest.raises(cw.UsageError, match="save a tensor over it instead"):
        saved([whole, torch.empty(0).set_(whole[8:24], 0, (4,), (1,))])


class AlwaysNew:
    """Makes other tensors at each pickling, over memory that it shares with them."""

    def __init__(self) -> None:
        self.memory = np.zeros(1 << 16, np.float32)
        self.times = 0

    def __getstate__(self) -> dict[str, Any]:
        self.times += 1
        step = 1 << (3 + self.times)
        return {
            "a": torch.from_numpy(self.memory[step : 2 * step + 2]),
            "b": torch.from_numpy(self.memory[2 * step : 4 * step]),
        }


def test_an_object_that_changes_while_it_is_saved_ends() -> None:
    with pytest.raises(cw.UsageError, match="each time it is pickled"):
        saved(AlwaysNew())


# where to, and in which format


@pytest.mark.parametrize(
    ("name", "options", "start"),
    [
        ("x.pt", {}, b"PK"),
        ("x", {}, b"PK"),
        ("x.bin", {}, b"PK"),
        ("x.cord", {}, b"PK\x03\x04"),
        ("x.CORD", {}, b"PK\x03\x04"),
        ("x.cord", {"format": "pt"}, b"PK"),
        ("x.pt", {"format": "pt-legacy"}, b"\x80\x02\x8a\nl\xfc"),
        ("x.safetensors", {"format": "pt"}, b"PK"),
        ("x.npy", {"format": "pt"}, b"PK"),
        ("x.crd", {"format": "pt"}, b"PK"),
    ],
)
def test_the_format_follows_the_suffix_unless_it_is_named(
    name: str, options: dict[str, Any], start: bytes, tmp_path: Path
) -> None:
    cw.save(floats(3), tmp_path / name, **options)
    data = (tmp_path / name).read_bytes()
    assert data.startswith(start)
    assert (data[30:46] == b"cordwood-tensors") == (name.lower() == "x.cord" and not options)
    assert torch.equal(cw.load(tmp_path / name), floats(3))


@pytest.mark.parametrize("name", ["x.pt.zip", "x.pth.zip", "X.PT.ZIP"])
def test_a_zipped_file_holds_the_file(name: str, tmp_path: Path) -> None:
    cw.save(torch.zeros(10_000), tmp_path / name)
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert archive.namelist() == [name[:-4]]
        inside = archive.read(name[:-4])
        assert archive.testzip() is None
    assert torch.equal(torch.load(io.BytesIO(inside)), torch.zeros(10_000))
    assert (tmp_path / name).stat().st_size < 2000


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_paths_of_every_kind(kind: Any, tmp_path: Path) -> None:
    cw.save(floats(3), kind(tmp_path / "x.cord"))
    assert torch.equal(cw.load(kind(tmp_path / "x.cord")), floats(3))


class Sips(io.RawIOBase):
    """A raw file that takes a few bytes at a time."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(memoryview(data)[:1000])
        self.taken += part
        return len(part)


@pytest.mark.parametrize("format", ["pt", "cord", "pt-legacy"])
def test_files_that_take_a_part_and_cannot_seek(format: Any) -> None:
    file = Sips()
    cw.save(floats(3000), file, format=format)
    assert torch.equal(cw.load(io.BytesIO(bytes(file.taken))), floats(3000))


def test_a_file_object_is_written_where_it_stands() -> None:
    file = io.BytesIO()
    file.write(b"before")
    cw.save(floats(3), file)
    assert file.getvalue()[:8] == b"beforePK"
    file.seek(6)
    assert torch.equal(torch.load(io.BytesIO(file.getvalue()[6:])), floats(3))
    assert torch.equal(cw.load(file), floats(3))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.safetensors", {}, "cannot hold shared or strided tensors"),
        ("x.safetensor", {}, r"'x\.safetensor': no format has the suffix \.safetensor; did you mean \.safetensors\?"),
        ("weights.crd", {}, r"did you mean \.cord\? \(format='pt' writes"),
        ("m.npy", {}, r"'m\.npy': \.npy is NumPy's format.*use \.pt or \.cord, or numpy\.save \(format='pt'"),
        ("x.pt", {"format": "zip"}, "format must be 'pt', 'cord' or 'pt-legacy', got 'zip'"),
        ("x.cord", {"goal": "tiny"}, "goal must be 'small', 'balanced', 'fast' or 'raw', got 'tiny'"),
        ("x.pt", {"goal": "small"}, "goal='small' is for .cord files"),
        ("x.cord", {"compress": True}, "compress is for .pt files"),
        ("x.cord", {"compress": False}, "compress is for .pt files"),
        ("x.pt", {"format": "pt-legacy", "compress": True}, "cannot be compressed"),
        ("x.pt", {"durable": 1}, "durable must be None, True or False, got 1"),
        ("x.pt", {"durable": "yes"}, "durable must be None, True or False, got 'yes'"),
        ("x.pt.zip", {"compress": True}, "compressed by the archive around it"),
    ],
)
def test_wrong_options_are_refused_in_words(name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match=message):
        cw.save(floats(3), tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", [None, 5, 2.5, ["x.pt"]])
def test_neither_path_nor_file(target: Any) -> None:
    with pytest.raises(cw.UsageError, match="neither a path nor a file"):
        cw.save(floats(3), target)


def test_durable_needs_a_path(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match="durable=True needs a path"):
        cw.save(floats(3), io.BytesIO(), durable=True)
    with pytest.raises(cw.UsageError, match="durable must be None, True or False, got 'yes'"):
        cw.save(floats(3), tmp_path / "x.pt", durable="yes")  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []
    cw.save(floats(3), tmp_path / "x.pt", durable=True)
    assert torch.equal(torch.load(tmp_path / "x.pt"), floats(3))


def test_the_same_object_gives_the_same_bytes() -> None:
    for options in ({}, {"compress": True}, {"format": "cord"}, {"format": "pt-legacy"}):
        assert saved({"a": floats(9, 9)[:, 2:5]}, **options) == saved({"a": floats(9, 9)[:, 2:5]}, **options)


def test_records_are_aligned_as_torch_aligns_them(tmp_path: Path) -> None:
    cw.save([floats(n) for n in (3, 5, 200, 1)], tmp_path / "x.pt")
    reader: Any = torch._C.PyTorchFileReader(str(tmp_path / "x.pt"))
    assert [reader.get_record_offset(f"data/{key}") % 64 for key in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize("count", [1, 12, 300])
@pytest.mark.parametrize("goal", ["small", "balanced", "fast", "raw"])
def test_many_small_views_of_one_storage_stay_small(goal: Goal, count: int) -> None:
    rows = list(floats(count, 5).unbind())
    file = io.BytesIO()
    torch.save(rows, file)
    data = saved(rows, format="cord", goal=goal)
    assert len(data) <= file.tell() + 1024
    assert_same(rows, cw.load(io.BytesIO(data)))


@pytest.mark.parametrize(
    "name", ["é.pt", "日本.pt", ".pt", "a b.pt", "a.b.c.pt", "x", "data.pt", "back\\slash.pt", "#1.pt"]
)
@pytest.mark.parametrize("compress", [False, True])
def test_torch_reads_files_of_any_name(name: str, compress: bool, tmp_path: Path) -> None:
    cw.save({"a": torch.zeros(500)}, tmp_path / name, compress=compress)
    assert torch.equal(torch.load(tmp_path / name)["a"], torch.zeros(500))
    assert torch.equal(cw.load(tmp_path / name)["a"], torch.zeros(500))
    if not compress:
        assert torch.equal(torch.load(tmp_path / name, mmap=True)["a"], torch.zeros(500))


@pytest.mark.parametrize("goal", ["small", "balanced", "fast", "raw"])
def test_large_and_small_views_of_one_storage(goal: Goal) -> None:
    """Small ones share a record with their neighbours, wherever they lie; large ones have their own."""
    base = floats(40_000)
    places = [(0, 6000), (6100, 6110), (6200, 6203), (7000, 7001), (8000, 15_000), (15_001, 15_002), (16_000, 16_100)]
    views = [base[start:end] for start, end in places]
    data = saved(views, format="cord", goal=goal)
    assert_same(views, cw.load(io.BytesIO(data)))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert [name for name in archive.namelist() if name.startswith("data/")] == [f"data/0.{n}" for n in range(4)]


def test_small_views_of_many_dtypes_in_one_record() -> None:
    memory = torch.arange(4000, dtype=torch.int64).view(torch.uint8)
    views = [
        memory[8:40].view(torch.float64),
        memory[100:103],
        memory[400:420].view(torch.int32),
        memory[900:901].bool(),
    ]
    views += [memory[1000:1003].view(torch.bool), memory[1600:1632].view(torch.complex128), memory[2001:2002]]
    assert_same(views, loaded(views, format="cord"))
    assert_shares_alike(views, loaded(views, format="cord"))


def test_a_file_object_is_flushed() -> None:
    with tempfile.NamedTemporaryFile() as file:
        cw.save(torch.arange(3), file)
        assert torch.equal(torch.load(file.name), torch.arange(3))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_warning_at_saving_foretells_a_refusal_at_loading(name: str) -> None:
    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cw.save(CATALOGUE[name].make(), file)
    warned = [one for one in seen if str(one.message).startswith("cw.load will refuse")]
    file.seek(0)
    try:
        cw.load(file)
    except cw.UnsafePickleError as error:
        (warning,) = warned
        assert warning.filename == __file__
        asked = str(error).split("asks for the global ")[1].split(",")[0]
        assert asked in str(warning.message)
    else:
        assert not warned


def test_names_that_the_user_allows_are_not_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"it refers to builtins\.object"):
        cw.save({"a": object(), "b": object()}, tmp_path / "x.pt")
    with torch.serialization.safe_globals([object]):
        cw.save({"a": object()}, tmp_path / "x.pt")
        assert type(cw.load(tmp_path / "x.pt")["a"]) is object


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        (..., "builtins.Ellipsis"),
        (NotImplemented, "builtins.NotImplemented"),
        (ZoneInfo("UTC"), "zoneinfo.ZoneInfo._unpickle"),
        (np.dtype("f4"), "numpy.dtype"),  # NumPy says through copyreg how these are pickled
        (np.add, "numpy.add"),
    ],
)
def test_a_warning_at_saving_names_constants_and_methods(odd: object, name: str) -> None:
    file = io.BytesIO()
    with pytest.warns(UserWarning, match=rf"refers to ([\w.]+, )*{re.escape(name)}"):
        cw.save({"a": odd}, file)
    file.seek(0)
    assert cw.load(file, weights_only=False) == {"a": odd}
    file.seek(0)
    with pytest.raises(cw.UnsafePickleError):
        cw.load(file)


def test_a_warning_at_saving_names_all_that_an_array_needs() -> None:
    array, file = np.arange(3), io.BytesIO()
    with pytest.warns(UserWarning, match="refers to ") as warned:
        cw.save(array, file)
    (warning,) = warned
    names = str(warning.message).split("refers to ")[1].split(". Save")[0].split(", ")
    rebuild: Any = array.__reduce__()[0]  # whose module's name depends on NumPy's version
    assert sorted(names) == sorted(["numpy.dtype", "numpy.ndarray", f"{rebuild.__module__}._reconstruct"])
    file.seek(0)
    with torch.serialization.safe_globals([rebuild, np.ndarray, np.dtype, type(array.dtype)]):
        assert cw.load(file).tolist() == [0, 1, 2]


def test_saving_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    class Watching:
        def __reduce__(self) -> Any:
            assert not gc.isenabled()
            raise RuntimeError

    assert gc.isenabled()
    cw.save(floats(3), tmp_path / "x.pt")
    with pytest.raises(RuntimeError):
        cw.save(Watching(), tmp_path / "x.pt")
    assert gc.isenabled()
    gc.disable()
    try:
        cw.save(floats(3), tmp_path / "x.pt")
        assert not gc.isenabled()
    finally:
        gc.enable()
