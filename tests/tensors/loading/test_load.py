"""`load`: by content, in part, mapped to devices, and never running what a file says."""

import io
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.codecs import Goal
from tests.tensors.behaviour.test_atomic_save import noise
from tests.tensors.support.objects import QUIET, Scaled, Tagged, floats, seeded_net
from tests.tensors.support.same import assert_same, assert_shares_alike

pytestmark = QUIET

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "pt": ("x.pt", {}),
    "compressed": ("x.pt", {"compress": True}),
    "legacy": ("x.pt", {"format": "pt-legacy"}),
    "zipped": ("x.pt.zip", {}),
    "cord": ("x.cord", {}),
    "cord-raw": ("x.cord", {"goal": "raw"}),
}
each_form = pytest.mark.parametrize("form", FORMS)


def save(obj: Any, form: str, folder: Path) -> Path:
    name, options = FORMS[form]
    cw.save(obj, folder / name, **options)
    return folder / name


# what is read, and from where


@each_form
def test_the_content_tells_the_format_and_not_the_name(form: str, tmp_path: Path) -> None:
    path = save(floats(5), form, tmp_path)
    for name in ("x.jpg", "y", "z.cord", "z.pt", "z.safetensors"):
        shutil.copy(path, tmp_path / name) if path.name != name else None
        assert torch.equal(cw.load(tmp_path / name), floats(5))


@each_form
def test_from_file_objects_where_they_stand(form: str, tmp_path: Path) -> None:
    obj = {"a": floats(500), "b": floats(40)[3:5]}
    path = save(obj, form, tmp_path)
    assert_same(obj, cw.load(str(path)))
    assert_same(obj, cw.load(path))
    assert_same(obj, cw.load(io.BytesIO(path.read_bytes())))
    with path.open("rb") as file:
        assert_same(obj, cw.load(file))
    with path.open("rb", buffering=0) as raw:
        assert_same(obj, cw.load(raw))
    (tmp_path / "behind").write_bytes(b"12345" + path.read_bytes())
    with (tmp_path / "behind").open("rb") as file:
        file.seek(5)
        assert_same(obj, cw.load(file))
    behind = io.BytesIO(b"12345" + path.read_bytes())
    behind.seek(5)
    assert_same(obj, cw.load(behind, only="*"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("inside", ["pt", "legacy", "cord", "compressed"])
def test_a_file_that_was_zipped_again(
    inside: str, compression: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obj = {"a": floats(3000), "b": torch.zeros(5000)}
    path = save(obj, inside, tmp_path)
    with zipfile.ZipFile(tmp_path / "again.zip", "w", compression) as archive:
        archive.write(path, "some folder/x.bin")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a temporary file")

    for name in (
        "NamedTemporaryFile",
        "TemporaryFile",
        "mkstemp",
        "mkdtemp",
        "SpooledTemporaryFile",
        "TemporaryDirectory",
    ):
        monkeypatch.setattr(tempfile, name, refuse)
    before = sorted(tmp_path.iterdir())
    assert_same(obj, cw.load(tmp_path / "again.zip"))
    assert_same({"b": obj["b"]}, cw.load(tmp_path / "again.zip", only="b"))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("target", [None, 5, 2.5, ["x.pt"], io.StringIO("text")])
def test_neither_path_nor_file(target: Any) -> None:
    with pytest.raises(cw.UsageError):
        cw.load(target)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\x1f\x8b123456789", "gzip"),
        (b"<html>not found</html>", "text"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS"),
        (b"\x80\x04N.", "plain pickle"),
        (b"\x01\x02\x03\x04\x05\x06\x07\x08\x09", "01 02 03"),
    ],
)
def test_what_is_no_tensor_file(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(cw.FormatError, match=says):
        cw.load(tmp_path / "x.pt")
    with pytest.raises(OSError, match="none"):
        cw.load(tmp_path / "none.pt")
    with pytest.raises((cw.UsageError, OSError)):
        cw.load(tmp_path)


# some of it


NAMED = {
    "model": {"layer4": {"0": {"weight": 1}, "1": {"bias": 2}}, "layer40": {"weight": 3}},
    "step": 4,
    "list": [5, 6],
}


def tree() -> Any:
    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fill(value) for key, value in node.items()}
        return [fill(value) for value in node] if isinstance(node, list) else torch.full((300,), float(node))

    return fill(NAMED)


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("model.layer4.*", ["model.layer4.0.weight", "model.layer4.1.bias"]),
        ("model.layer4.0.weight", ["model.layer4.0.weight"]),
        ("*weight", ["model.layer4.0.weight", "model.layer40.weight"]),
        ("*.layer4?.*", ["model.layer40.weight"]),
        ("*.layer4[0-9].*", ["model.layer40.weight"]),
        (["step", "list.1"], ["step", "list.1"]),
        (("list.*", "nothing.*"), ["list.0", "list.1"]),
        ({"step"}, ["step"]),
        ("*", ["model.layer4.0.weight", "model.layer4.1.bias", "model.layer40.weight", "step", "list.0", "list.1"]),
    ],
    ids=str,
)
def test_only_some_by_name(only: Any, names: list[str], tmp_path: Path) -> None:
    patterns = list(only) if not isinstance(only, str) else only
    for form in FORMS:
        found = cw.load(save(tree(), form, tmp_path), only=patterns if isinstance(patterns, str) else iter(patterns))
        assert sorted(found) == sorted(names)
        everything = cw.load(tmp_path / FORMS[form][0], only="*")
        assert_same({name: everything[name] for name in found}, found)
    assert everything["model.layer4.1.bias"][0] == 2
    assert everything["list.1"][0] == 6


@each_form
def test_what_shares_memory_shares_it_in_part_too(form: str, tmp_path: Path) -> None:
    base = floats(100)
    obj = {"a": base[:50], "b": base[40:60], "c": base[90:], "tied": base[:50], "other": floats(9)}
    found = cw.load(save(obj, form, tmp_path), only=["a", "b", "tied"])
    assert_shares_alike({"a": obj["a"], "b": obj["b"], "tied": obj["tied"]}, found)
    found["a"][45] = 7.0
    assert found["b"][5] == 7.0


@each_form
def test_unknown_names_are_refused_in_words(form: str, tmp_path: Path) -> None:
    path = save({"weight": floats(3), "epoch": 1}, form, tmp_path)
    for only in ("wieght", ["a", "b"], [], "epoch"):
        with pytest.raises(cw.UsageError, match=r"no tensor has a name that was asked for; it has 1, such as weight"):
            cw.load(path, only=only)
    for wrong in (5, [5], [b"weight"]):
        with pytest.raises(cw.UsageError, match="neither a pattern nor a list"):
            cw.load(path, only=wrong)  # type: ignore[arg-type]


def test_names_in_a_whole_model_without_its_class(tmp_path: Path) -> None:
    net = seeded_net()
    cw.save(net, tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    assert data.count(b"tests.tensors.support.objects") > 0
    (tmp_path / "x.pt").write_bytes(data.replace(b"tests.tensors.support.objects", b"tests.tensors.support.nowhere"))
    found = cw.load(tmp_path / "x.pt", only="*")
    wanted = {name: tensor.detach() for name, tensor in net.state_dict().items()}
    assert {name: tensor.detach().tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in wanted.items()
    }
    assert found["head.weight"] is found["embed.weight"]


@each_form
def test_only_what_is_asked_for_is_read(form: str, tmp_path: Path) -> None:
    """The limit is below what the rest would take."""
    path = save({"large": noise(1_000_000), "small": floats(10)}, form, tmp_path)
    limit = 2_000_000 if form == "zipped" else 50_000
    assert_same({"small": floats(10)}, cw.load(path, only="small", limit=limit))
    with pytest.raises(cw.FormatError, match="limit"):
        cw.load(path, limit=50_000)


# damage


def damage(path: Path, at: bytes, by: bytes = b"\xff\xff\xff\xff\xff\xff\xff\xff") -> None:
    data = bytearray(path.read_bytes())
    place = data.index(at)
    data[place : place + len(by)] = by
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(("goal", "value"), [("raw", noise(4000)), ("balanced", torch.arange(4000) % 7)])
def test_a_damaged_record_is_named_and_the_rest_still_loads(goal: Goal, value: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "x.cord"
    cw.save({"good": floats(100), "bad": value, "also": floats(3)}, path, goal=goal)
    with zipfile.ZipFile(path) as archive:
        content = archive.read("data/1.0")
    damage(path, content[len(content) // 2 : len(content) // 2 + 40])
    with pytest.raises(cw.FormatError, match=r"x\.cord: data/1\.0"):
        cw.load(path)
    with pytest.raises(cw.FormatError, match=r"data/1\.0"):
        cw.load(path, only="*")
    assert_same({"good": floats(100), "also": floats(3)}, cw.load(path, only=["good", "also"]))


def test_a_damaged_deflated_record(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    cw.save({"good": floats(100), "bad": torch.arange(4000) % 7}, path, compress=True)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("x/data/1")
        start = info.header_offset + 30 + len("x/data/1")
    data = bytearray(path.read_bytes())
    for place in range(start + info.compress_size // 2, start + info.compress_size // 2 + 20):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(cw.FormatError, match=r"x\.pt: 'x/data/1'"):
        cw.load(path)
    assert_same({"good": floats(100)}, cw.load(path, only="good"))


@pytest.mark.parametrize("form", ["pt", "legacy", "cord", "zipped", "compressed"])
def test_a_file_cut_short(form: str, tmp_path: Path) -> None:
    path = save({"a": floats(1000), "b": floats(1000)}, form, tmp_path)
    data = path.read_bytes()
    for length in [*range(1, 60), *range(60, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(cw.FormatError):
            cw.load(path)


def test_what_is_left_of_a_file_cut_short(tmp_path: Path) -> None:
    path = save({"a": floats(1000), "b": floats(1000, seed=1)}, "pt", tmp_path)
    path.write_bytes(path.read_bytes()[:-3000])
    assert_same({"a": floats(1000)}, cw.load(path, only="a"))
    with pytest.raises(cw.FormatError):
        cw.load(path, only="b")


# how much memory


@each_form
def test_the_limit_is_kept(form: str, tmp_path: Path) -> None:
    path = save(torch.zeros(100_000), form, tmp_path)
    with pytest.raises(cw.FormatError, match=r"limit is 300000.*raise it with limit="):
        cw.load(path, limit=300_000)
    assert torch.equal(cw.load(path, limit=1_000_000), torch.zeros(100_000))
    for wrong in (-1, 2.5, True, "1GB"):
        with pytest.raises(cw.UsageError, match="number of bytes"):
            cw.load(path, limit=wrong)  # type: ignore[arg-type]


# where to


MAPS: dict[str, Any] = {
    "none": None,
    "cpu": "cpu",
    "device": torch.device("cpu"),
    "dict": {"cpu": "cpu"},
    "dict of others": {"cuda:0": "cpu"},
    "meta": "meta",
    "meta device": torch.device("meta"),
    "dict to meta": {"cpu": "meta"},
    "function": lambda storage, location: storage,
    "function of nothing": lambda storage, location: None,
}


@pytest.mark.parametrize("form", ["pt", "compressed", "cord", "legacy"])
@pytest.mark.parametrize("map_location", MAPS.values(), ids=MAPS)
def test_locations_are_mapped_as_torch_does(form: str, map_location: Any, tmp_path: Path) -> None:
    obj = {"a": floats(30), "b": floats(4, 4)[:, 1:3], "int": torch.arange(3)}
    path = save(obj, form, tmp_path)
    cw.save(obj, tmp_path / "plain.pt")
    assert_same(torch.load(tmp_path / "plain.pt", map_location=map_location), cw.load(path, map_location=map_location))
    some = cw.load(path, map_location=map_location, only="a")["a"]
    assert some.device == torch.load(tmp_path / "plain.pt", map_location=map_location)["a"].device


@pytest.mark.parametrize("form", ["pt", "cord"])
def test_a_function_sees_each_storage_once_with_its_location(form: str, tmp_path: Path) -> None:
    base = floats(30)
    path = save({"a": base[:4], "b": base[20:], "c": floats(5)}, form, tmp_path)
    seen: list[tuple[int, str]] = []

    def look(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
        seen.append((storage.nbytes(), location))
        return storage

    cw.load(path, map_location=look)
    assert sorted(seen) == [(20, "cpu"), (56, "cpu")]


def test_a_device_that_is_not_here(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(floats(3), path)
    data = path.read_bytes().replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00xyz")
    path.write_bytes(data)
    with pytest.raises(cw.UsageError, match=r"saved on 'xyz'.*map_location='cpu'"):
        cw.load(path)
    assert torch.equal(cw.load(path, map_location="cpu"), floats(3))


def test_nothing_is_reserved_on_the_meta_device(tmp_path: Path) -> None:
    for form in ("pt", "cord", "compressed"):
        path = save(torch.zeros(1_000_000), form, tmp_path)
        loaded = cw.load(path, map_location="meta", limit=10_000)
        assert loaded.device.type == "meta"
        assert loaded.shape == (1_000_000,)


# mapping


@pytest.mark.parametrize("form", ["pt", "cord-raw"])
def test_a_mapped_file_is_not_written_to(form: str, tmp_path: Path) -> None:
    path = save({"a": noise(100_000)}, form, tmp_path)
    before = path.read_bytes()
    loaded = cw.load(path, mmap=True)
    loaded["a"].zero_()
    assert path.read_bytes() == before
    with pytest.raises(cw.UsageError, match=r"mmap=True needs the path"):
        cw.load(io.BytesIO(before), mmap=True)


def test_large_raw_records_are_mapped_unasked(tmp_path: Path) -> None:
    path = save({"a": noise(3_000_000)}, "cord-raw", tmp_path)
    mapped = cw.load(path, limit=100_000)
    assert torch.equal(mapped["a"], noise(3_000_000))
    with pytest.raises(cw.FormatError, match="limit"):
        cw.load(path, mmap=False, limit=100_000)
    path = save({"a": noise(3_000_000)}, "pt", tmp_path)
    with pytest.raises(cw.FormatError, match="limit"):
        cw.load(path, limit=100_000)  # a .pt is mapped when torch would


# safety


class Writes:
    """Loading it, as pickle would, makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


class Sets:
    """Loading it runs a method of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        Path(state["path"]).touch()
        self.__dict__.update(state)


@each_form
def test_no_code_of_the_file_runs(form: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    for obj, name in ((Writes(touched), r"posix\.mkdir"), (Sets(str(touched)), r"test_load\.Sets")):
        path = save({"a": floats(3), "evil": obj, "b": floats(3)}, form, tmp_path)
        with pytest.raises(cw.FormatError, match=rf"the global \S*({name}).*add_safe_globals.*weights_only=False"):
            cw.load(path)
        assert_same({"a": floats(3), "b": floats(3)}, cw.load(path, only=["a", "b"]))
        assert not touched.exists()
    cw.load(path, weights_only=False)
    assert touched.exists()


@each_form
def test_what_the_user_allows_is_loaded(form: str, tmp_path: Path) -> None:
    tagged = floats(4).as_subclass(Tagged)
    tagged.tag = "x"
    obj = {"sets": Sets(str(tmp_path / "touched")), "tagged": tagged, "wrapper": Scaled(floats(3), 0.5)}
    path = save(obj, form, tmp_path)
    with torch.serialization.safe_globals([Sets, Tagged]), pytest.raises(cw.FormatError, match=r"objects\.Scaled"):
        cw.load(path)
    with torch.serialization.safe_globals([Sets, Tagged, Scaled]):
        loaded = cw.load(path)
        assert_same(torch.load(save(obj, "pt", tmp_path)), loaded)
    assert_same(obj, loaded)
    assert_same(obj, cw.load(path, weights_only=False))
    with pytest.raises(cw.FormatError):
        cw.load(path)


def test_torchscript_is_refused_with_the_reason(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        for name in ("x/data.pkl", "x/constants.pkl", "x/version"):
            archive.writestr(name, b"\x80\x02).")
    with pytest.raises(cw.FormatError, match=r"TorchScript.*torch\.jit\.load"):
        cw.load(tmp_path / "x.pt")
