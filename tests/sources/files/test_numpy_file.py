"""NumPy's files: the arrays that are in them, and nothing but FormatError for what is not."""

import contextlib
import io
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError
from cordwood.sources.files.numpy_file import load_numpy


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A .npy file with a header of our own."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def told(dtype: str, shape: str, fortran: bool = False) -> str:
    return f"{{'descr': {dtype!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


class TestArrays:
    @pytest.mark.parametrize(
        "array",
        [
            np.arange(24, dtype=np.float32).reshape(2, 3, 4),
            np.asfortranarray(np.arange(24).reshape(4, 6)),
            np.array(3.5),
            np.zeros((0, 3), np.int16),
            np.array([True, False]),
            np.array([1 + 2j]),
            np.arange(5, dtype=">i4"),
            np.arange(5, dtype=np.uint16),
            np.zeros(300_000),  # mapped
        ],
        ids=lambda array: f"{array.dtype}{array.shape}",
    )
    def test_come_back_as_tensors(self, tmp_path: Path, array: npt.NDArray[Any]) -> None:
        np.save(tmp_path / "a.npy", array)
        np.savez(tmp_path / "b.npz", x=array)
        np.savez_compressed(tmp_path / "c.npz", x=array)
        found = (
            load_numpy(tmp_path / "a.npy"),
            load_numpy(tmp_path / "b.npz")["x"],
            load_numpy(tmp_path / "c.npz")["x"],
        )
        for tensor in found:
            assert isinstance(tensor, torch.Tensor)
            assert tensor.shape == array.shape
            assert np.array_equal(tensor.numpy(), array)

    def test_what_is_mapped_can_be_written_to_and_the_file_stays(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros(300_000))
        tensor = load_numpy(tmp_path / "a.npy")
        tensor += 1
        assert not np.load(tmp_path / "a.npy").any()

    def test_text_becomes_lists(self, tmp_path: Path) -> None:
        np.savez(
            tmp_path / "a.npz",
            big=np.array("\U0010ffff", ">U2"),
            names=np.array(["a", "bc"]),
            one=np.array("x"),
            raw=np.array([b"ab"]),
        )
        assert load_numpy(tmp_path / "a.npz") == {"big": "\U0010ffff", "names": ["a", "bc"], "one": "x", "raw": [b"ab"]}

    def test_the_second_version(self, tmp_path: Path) -> None:
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array(file, np.arange(3), version=(2, 0))
        assert load_numpy(tmp_path / "a.npy").tolist() == [0, 1, 2]


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (npy(told("<f4", "(3,)"), b"\0" * 11), r"has 12 bytes, but 11 follow"),
            (npy(told("<f4", "(3,)"), b"\0" * 13), r"has 12 bytes, but 13 follow"),
            (npy(told("<f4", "(1000000000000,)"), b"\0" * 8), r"has 4000000000000 bytes, but 8 follow"),
            (npy(told("<f4", "(-1, -3)"), b"\0" * 12), "cut short or damaged"),
            (npy(told("<f4", f"(0, {2**70})")), "cannot be"),
            (npy(told("|S0", "(1000000000000,)")), "values have no bytes"),
            (npy(told("|O", "(1,)"), b"\x80\x04N."), "objects are pickles that may run code"),
            (
                npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", b"\0" * 4),
                "records have no tensor",
            ),
            (npy(told("<f16", "(1,)"), b"\0" * 16), "torch has no dtype"),
            (npy(told("<M8[s]", "(1,)"), b"\0" * 8), "torch has no dtype"),
            (npy(told("<U1", "(1,)"), b"\xff" * 4), "the text in it is damaged: 0xffffffff is no character"),
            (npy(told(">U2", "()"), b"\0\0\0a\0\x11\0\0"), "the text in it is damaged: 0x110000 is no character"),
            (npy("[" * 5000), "header of the .npy file cannot be read"),
            (npy("__import__('os')"), "header of the .npy file cannot be read"),
            (npy(told("<f4", "(1,)"), b"\0" * 4, b"\x09\x00"), "version"),
            (b"\x93NUMPY\x01\x00\xff", "header of the .npy file cannot be read"),
            (b"", "header of the .npy file cannot be read"),
        ],
    )
    def test_with_a_reason(self, tmp_path: Path, content: bytes, message: str) -> None:
        (tmp_path / "a.npy").write_bytes(content)
        with pytest.raises(FormatError, match=message):
            load_numpy(tmp_path / "a.npy")

    def test_a_bomb_in_an_archive(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", npy(told("<f4", "(1000000000000,)"), b"\0" * 100_000))
        with pytest.raises(FormatError, match=r"x\.npy: .*has 4000000000000 bytes, but 100000 follow"):
            load_numpy(tmp_path / "a.npz")

    def test_a_member_that_claims_more_than_the_machine_has(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        np.savez_compressed(tmp_path / "a.npz", x=np.zeros(100_000))
        monkeypatch.setattr("cordwood.tensors.io.memory_budget.physical_memory", lambda: 10_000)
        with pytest.raises(FormatError, match=r"x\.npy needs 800128 bytes"):
            load_numpy(tmp_path / "a.npz")

    def test_something_else_in_an_archive(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("readme.txt", "text")
        with pytest.raises(FormatError, match=r"holds \.npy files only"):
            load_numpy(tmp_path / "a.npz")

    @given(
        st.booleans(),
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
        st.data(),
    )
    def test_damaged_files_raise_nothing_else(
        self, archive: bool, cut: bool, changes: list[tuple[int, int]], data: st.DataObject
    ) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, x=np.arange(5)) if archive else np.save(buffer, np.arange(5))
        content = bytearray(buffer.getvalue())
        for at, value in changes:
            content[at % len(content)] = value
        if cut:
            del content[data.draw(st.integers(0, len(content))) :]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.npz"
            path.write_bytes(content)
            with contextlib.suppress(FormatError):
                load_numpy(path)
