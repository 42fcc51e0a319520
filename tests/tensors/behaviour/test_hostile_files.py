"""Files around the pickle that were made to do harm, in every format; and how much memory they get."""

import io
import json
import pickle
import resource
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood
from tests.tensors.support import craft
from tests.tensors.support.craft import (
    archive,
    legacy,
    legacy_tensor,
    manifest,
    pickled,
    raw_record,
    safetensors,
    tensor,
)

ROW = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


def refused(data: bytes, match: str, **options: Any) -> None:
    """By load; by names what is left may be loaded, and nothing else happens."""
    with pytest.raises(cordwood.FormatError, match=match) as caught:
        cordwood.load(io.BytesIO(data), **options)
    assert len(str(caught.value)) < 1000
    try:
        assert isinstance(cordwood.load(io.BytesIO(data), only="*", **options), dict)
    except (cordwood.FormatError, cordwood.UsageError) as error:
        assert len(str(error)) < 1000


HEADERS: dict[str, tuple[Any, str]] = {
    "not JSON": (b'{"a": ', "not JSON"),
    "not UTF-8": (b'{"\xff": 1}', "not JSON"),
    "deep": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
    "an integer of a million digits": (b'{"a":' + b"9" * 1_000_000 + b"}", "not JSON"),
    "a name twice": (b'{"a":' + json.dumps(ROW).encode() + b',"a":' + json.dumps(ROW).encode() + b"}", "used twice"),
    "a member twice": (b'{"a":{"dtype":"F32","dtype":"F64"}}', "used twice"),
    "a row that is no table": ({"a": [1]}, "not described by a table"),
    "metadata that is no table": ({"__metadata__": [1]}, "__metadata__"),
    "metadata that is not text": ({"__metadata__": {"a": 1}}, "__metadata__"),
    "an unknown dtype": ({"a": ROW | {"dtype": "F33"}}, "has the dtype 'F33'"),
    "a dtype that is no text": ({"a": ROW | {"dtype": ["F32"]}}, "has the dtype"),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 16]}}, "has the shape"),
    "a negative size": ({"a": ROW | {"shape": [-4]}}, "has the shape"),
    "a size that is a float": ({"a": ROW | {"shape": [4.0]}}, "has the shape"),
    "a size that is a bool": ({"a": ROW | {"shape": [True]}}, "has the shape"),
    "a size that is no number": ({"a": ROW | {"shape": [float("nan")]}}, "not JSON"),
    "100,000 dimensions": ({"a": ROW | {"shape": [1] * 100_000}}, "has the shape"),
    "a product that overflows": ({"a": ROW | {"shape": [1 << 32, 1 << 32]}}, "needs|cannot count"),
    "empty, and overflows": ({"a": {**ROW, "shape": [0, 1 << 59, 1 << 59], "data_offsets": [0, 0]}}, "cannot count"),
    "offsets backwards": ({"a": ROW | {"data_offsets": [16, 0]}}, "needs 16 bytes"),
    "offsets too near": ({"a": ROW | {"data_offsets": [0, 12]}}, "needs 16 bytes"),
    "offsets beyond the file": ({"a": ROW | {"data_offsets": [16, 32]}}, "needs 16 bytes"),
    "three offsets": ({"a": ROW | {"data_offsets": [0, 8, 16]}}, "has the offsets"),
    "negative offsets": ({"a": ROW | {"data_offsets": [-16, 0]}}, "has the offsets"),
    "tensors that overlap": (
        {"a": ROW | {"shape": [2], "data_offsets": [0, 8]}, "b": ROW | {"shape": [2], "data_offsets": [4, 12]}},
        "overlap",
    ),
    "one place for two": ({"a": ROW, "b": ROW}, "overlap"),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_safetensors_header_that_cannot_be_meant_is_refused(kind: str) -> None:
    header, match = HEADERS[kind]
    refused(safetensors(header, bytes(16)), match)


def test_a_safetensors_header_longer_than_the_file_is_refused() -> None:
    for length in (1 << 63, 10_000, 1000):
        refused(safetensors({"a": ROW}, bytes(16), length=length), "cut short")


def test_a_safetensors_name_may_be_any_text() -> None:
    name = "ключ.\u202e🦉" + "x" * 10_000
    loaded = cordwood.load(io.BytesIO(safetensors({name: ROW, "__metadata__": {"k": "v" * 10_000}}, bytes(16))))
    assert loaded.keys() == {name}
    assert torch.equal(loaded[name], torch.zeros(4))


@pytest.mark.parametrize("shift", range(9))
def test_a_safetensors_start_that_is_not_aligned_is_read_all_the_same(shift: int, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    header = json.dumps({"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}}).encode() + b" " * shift
    path.write_bytes(safetensors(header, struct.pack("<2d", 1.5, -2.0)))
    for mmap in (False, True):
        loaded = cordwood.load(path, mmap=mmap)["a"]
        assert loaded.tolist() == [1.5, -2.0]
        assert loaded.data_ptr() % 8 == 0


def test_a_header_of_many_objects_is_counted_as_what_it_becomes() -> None:
    refused(safetensors(b'{"a":[' + b"[]," * 1_000_000 + b"[]]}"), "the limit is 10000000", limit=10_000_000)


RAW = bytes(range(16))
RECORD = raw_record("data/0.0", RAW)
STORAGE: dict[str, Any] = {"nbytes": 16, "records": [RECORD]}
MANIFESTS: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "not JSON"),
    "deep": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
    "nearly too deep": (manifest({}) | {"version": json.loads("[" * 900 + "]" * 900)}, "version"),
    "an integer of a million digits": (b'{"version":' + b"9" * 1_000_000 + b"}", "not JSON"),
    "a key twice": (b'{"format":"cordwood-tensors","format":"x"}', "used twice"),
    "another format": (manifest({}, format="x"), "does not say"),
    "a list": ([], "does not say"),
    "no version": (manifest({}, version=None), "version None"),
    "a bool for a version": (manifest({}, version=[True, 0]), "version"),
    "a newer version": (manifest({}, version=[2, 0]), "reads 1.x"),
    "a requirement": (manifest({}, requires=["magic"]), "needs .*magic"),
    "storages that are no table": (manifest([]), "storages is not a table"),
    "a storage that is no table": (manifest({"0": []}), "no list of records"),
    "a huge storage without records": (manifest({"0": {"nbytes": 1 << 40, "records": []}}), "of which records tell 0"),
    "a storage beyond all": (manifest({"0": STORAGE | {"nbytes": 1 << 60}}), "storage 0 of"),
    "a negative size": (manifest({"0": STORAGE | {"nbytes": -1}}), "storage 0 of -1"),
    "a float": (manifest({"0": STORAGE | {"nbytes": 16.0}}), "storage 0 of 16.0"),
    "a bool": (manifest({"0": STORAGE | {"nbytes": True}}), "storage 0 of True"),
    "not a number": (manifest({"0": STORAGE | {"nbytes": float("nan")}}), "storage 0 of nan"),
    "a record that is no table": (manifest({"0": STORAGE | {"records": ["x"]}}), "is not a table"),
    "no such entry": (manifest({"0": STORAGE | {"records": [RECORD | {"name": "x"}]}}), "no entry x"),
    "the pickle as a record": (manifest({"0": STORAGE | {"records": [RECORD | {"name": "data.pkl"}]}}), "another size"),
    "negative offset": (manifest({"0": STORAGE | {"records": [RECORD | {"offset": -1}]}}), "no name, offset or size"),
    "offset too far": (manifest({"0": STORAGE | {"records": [RECORD | {"offset": 1}]}}), "lies at 1"),
    "an empty record": (manifest({"0": STORAGE | {"records": [RECORD | {"nbytes": 0}]}}), "no name, offset or size"),
    "used twice": (manifest({"0": STORAGE, "1": STORAGE}), "used twice"),
    "records that overlap": (manifest({"0": STORAGE | {"nbytes": 31, "records": [RECORD, RECORD]}}), "lies at 0"),
    "too much padding": (manifest({"0": STORAGE | {"nbytes": 32}}), "of which records tell 16"),
    "an unknown coding": (manifest({"0": STORAGE | {"records": [RECORD | {"coding": "zip"}]}}), "coding 'zip'"),
    "no checksum": (manifest({"0": STORAGE | {"records": [RECORD | {"crc32c": None}]}}), "no checksum"),
    "a wrong checksum": (manifest({"0": STORAGE | {"records": [RECORD | {"crc32c": 1}]}}), "the checksum of its bytes"),
    "no frame": (manifest({"0": STORAGE | {"records": [RECORD | {"coding": "frame"}]}}), "data/0.0: "),
    "no storage": (manifest({}), "not in the manifest"),
    "another size than the pickle's": (
        manifest({"0": {"nbytes": 17, "records": [RECORD]}}),
        "has 17 bytes, and the pickle says",
    ),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_that_cannot_be_meant_is_refused(kind: str) -> None:
    text, match = MANIFESTS[kind]
    refused(craft.cord(pickled(tensor()), text, {"data/0.0": RAW}), match)


def test_the_manifest_that_the_others_are_made_of_is_good() -> None:
    data = craft.cord(pickled(tensor()), manifest({"0": STORAGE}), {"data/0.0": RAW})
    assert bytes(cordwood.load(io.BytesIO(data)).numpy()) == RAW
    refused(craft.cord(pickled(tensor()), manifest({"0": STORAGE}), {"data/0.0": RAW}, deflated=True), "is deflated")


def test_a_frame_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    file = io.BytesIO()
    cordwood.save({"a": torch.zeros(4_000_000)}, file, format="cord")
    assert len(file.getvalue()) < 100_000
    refused(file.getvalue(), "the limit is 1000000", limit=1_000_000)


STORED = ("0", 4, bytes(16))
LEGACY: dict[str, tuple[bytes, str]] = {
    "another version": (legacy(b"N", version=9), "version 9"),
    "a huge version": (legacy(b"N", version=1 << 100_000), "version an integer of"),
    "a version of tuples": (legacy(b"N", version=((((),),),)), "version"),
    "big-endian": (legacy(b"N", system={"little_endian": False}), "big-endian"),
    "no facts": (legacy(b"N", system=[1]), "big-endian"),
    "keys that are no list": (legacy(b"N", keys=pickle.dumps(5, 2)), "not one of keys"),
    "keys that are huge": (legacy(b"N", keys=pickle.dumps([1 << 100_000], 2)), "not one of keys"),
    "keys that are tuples": (legacy(b"N", keys=pickle.dumps([("0",)], 2)), "not one of keys"),
    "a key twice": (legacy(legacy_tensor(), [STORED, STORED]), "listed, but not used once"),
    "a key of no storage": (legacy(b"N", [STORED]), "listed, but not used once"),
    "a storage that is not listed": (legacy(legacy_tensor()), "not in the file"),
    "a negative count": (legacy(legacy_tensor(), [("0", -4, bytes(16))]), "has -4 items"),
    "another count": (legacy(legacy_tensor(), [("0", 3, bytes(16))]), "has 3 items"),
    "a negative numel": (legacy(legacy_tensor(numel=-4), [STORED]), "unknown kind or size"),
    "a huge numel": (legacy(legacy_tensor(numel=1 << 100_000), [STORED]), "unknown kind or size"),
    "more than the file": (legacy(legacy_tensor(numel=1 << 40), [("0", 1 << 40, bytes(16))]), "cut short"),
    "a huge key": (legacy(legacy_tensor(1 << 100_000), [STORED]), "whose key is an integer of"),
    "a key of tuples": (legacy(legacy_tensor(((),)), [STORED]), "whose key is"),
    "a view outside": (legacy(legacy_tensor(view=("v", 2, 4)), [STORED]), "a view of 16 bytes at 8"),
    "a negative view": (legacy(legacy_tensor(view=("v", -1, 4)), [STORED]), "view is"),
    "a huge view": (legacy(legacy_tensor(view=("v", 0, 1 << 100_000)), [STORED]), "a view of an integer"),
    "a view of two parts": (legacy(legacy_tensor(view=("v", 1)), [STORED]), "view is"),
    "cut in the storages": (legacy(legacy_tensor(), [STORED])[:-1], "cut short"),
}


@pytest.mark.parametrize("kind", LEGACY)
def test_an_old_file_that_cannot_be_meant_is_refused(kind: str) -> None:
    data, match = LEGACY[kind]
    refused(data, match)


def test_an_old_file_is_refused_wherever_it_is_cut() -> None:
    whole = legacy(legacy_tensor(view=("v", 1, 2), size=(2,)), [STORED])
    assert torch.equal(cordwood.load(io.BytesIO(whole)), torch.zeros(2))
    for length in range(len(whole)):
        refused(whole[:length], "<BytesIO>: ")


class CountedReads(io.BytesIO):
    """Counts what is read of it."""

    total = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.total += len(data)
        return data


def test_an_old_file_is_not_read_again_and_again() -> None:
    """A pickle that does not end is looked for in ever larger pieces; one that is wrong at its start in none."""
    endless = legacy(b"X" + struct.pack("<I", 0xFFFFFFFF)) + bytes(20_000_000)
    wrong = legacy(b"\xff") + bytes(20_000_000)
    for data, most in ((endless, 1.6 * len(endless)), (wrong, 1.1 * (1 << 20))):
        file = CountedReads(data)
        with pytest.raises(cordwood.FormatError):
            cordwood.load(file)
        assert file.total <= most


def test_an_old_file_takes_no_more_than_the_limit_for_its_pickles() -> None:
    refused(legacy(b"X" + struct.pack("<I", 0xFFFFFFFF)) + bytes(20_000_000), "the limit is 5000000", limit=5_000_000)


ARCHIVES: dict[str, tuple[bytes, str]] = {
    "an empty pickle": (archive(b""), "ends before its STOP"),
    "no pickle": (archive(None, {"0": bytes(16)}), "no data.pkl|known are"),
    "a pickle that goes on": (archive(pickled(b"N")[:-1]), "ends before its STOP"),
    "two values": (archive(pickled(b"NN")), "2 values"),
    "an open mark": (archive(pickled(b"(N")), "open marks"),
    "a program": (archive(pickled(b"N"), extra={"constants.pkl": b""}), "TorchScript"),
    "a program without data": (archive(None, extra={"constants.pkl": b"", "x": b""}), "TorchScript"),
    "an unknown byte order": (archive(pickled(b"N"), extra={"byteorder": b"middle"}), "neither little nor big"),
    "a long byte order": (archive(pickled(b"N"), extra={"byteorder": b"x" * 10_000}), "neither little nor big"),
    "zipped twice": (craft.zipped({"b.zip": craft.zipped({"a.pt": archive(pickled(b"N"))})}), "not of tensors"),
    "nothing": (craft.zipped({}), "not of tensors"),
    "no tensors in it": (craft.zipped({"readme.txt": b"hello"}), "known are"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_cannot_be_meant_is_refused(kind: str) -> None:
    data, match = ARCHIVES[kind]
    refused(data, match)


def test_storages_of_a_big_endian_machine_are_turned() -> None:
    data = archive(pickled(tensor()), {"0": struct.pack(">4f", 1, 2, 3, 4)}, extra={"byteorder": b"big"})
    assert cordwood.load(io.BytesIO(data)).tolist() == [1, 2, 3, 4]


BOMBS = {
    "a record": archive(pickled(tensor(numel=1 << 24, size=(1,))), {"0": bytes(1 << 26)}, deflated=True),
    "a record nobody asks for": archive(pickled(tensor()), {"0": bytes(16), "9": bytes(1 << 26)}, deflated=True),
    "the pickle": archive(pickled(b"(" + b"N" * (1 << 26) + b"t"), deflated=True),
    "the file inside": craft.zipped({"x.pt": archive(pickled(tensor()), {"0": bytes(1 << 26)})}, deflated=True),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_inflates_beyond_the_limit_is_refused(kind: str) -> None:
    assert len(BOMBS[kind]) < 1 << 18
    with pytest.raises(cordwood.FormatError, match="the limit is 10000000"):
        cordwood.load(io.BytesIO(BOMBS[kind]), limit=10_000_000)


HEAVY = {
    "empty sets": pickled(b"(" + b"\x8f" * 3_000_000 + b"t"),
    "the memo": pickled(b"N" + b"\x94" * 3_000_000, protocol=4),
    "text of four bytes a letter": pickled(
        b"](" + b"".join(craft.text("x" * 100_000 + "\U0001f989") for _ in range(100)) + b"e"
    ),
    "storages asked for often": pickled(b"](" + tensor() + craft.put(1) + tensor() * 30_000 + b"e"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEAVY)
def test_memory_follows_the_limit(kind: str, tmp_path: Path) -> None:
    """In a process of its own, whose largest size is measured: some dozens of megabytes are free for every file."""
    path = tmp_path / "x.pt"
    path.write_bytes(archive(HEAVY[kind], {"0": bytes(16)}, deflated=True))
    program = f"""
        import resource, sys
        import cordwood
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        from cordwood.tensors import load
        before = peak()
        for only in (None, "*"):
            try:
                cordwood.load({str(path)!r}, limit=20_000_000, only=only)
            except cordwood.FormatError:
                pass
        print(peak() - before)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=300
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(result.stdout) * unit < 20_000_000 + (160 << 20)


@pytest.mark.slow
def test_a_storage_that_the_machine_cannot_hold_is_refused(tmp_path: Path) -> None:
    """The limit may be higher than what the machine gives."""
    path = tmp_path / "x.pt"
    with path.open("wb") as file:
        file.write(archive(pickled(tensor(numel=1 << 28, size=(1,))), {"0": bytes(1 << 30)}, deflated=True))
    program = f"""
        import resource
        import cordwood
        from cordwood.tensors import load
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (512 << 20),) * 2)
        try:
            cordwood.load({str(path)!r}, limit=1 << 40)
        except cordwood.FormatError as error:
            print(error)
    """
    if not sys.platform.startswith("linux") or not resource.RLIMIT_AS:
        pytest.skip("only Linux holds a process to its address space")
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert "less memory than the file needs" in result.stdout, result.stderr
