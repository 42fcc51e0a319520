"""Golden tensor files: bytes kept for ever. Both readers read them, to the objects that formulas give."""

import hashlib
import zipfile

import pytest

from tests.format.support.readers import ROOT
from tests.format.tensors.tensor_readers import READERS
from tests.golden.tensors.objects import GOLDEN
from tests.tensors.support.same import assert_same, assert_shares_alike

GOLDEN_DIR = ROOT / "tests" / "golden" / "tensors"
SUMS = {
    name: recorded
    for recorded, name in map(str.split, (GOLDEN_DIR / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
}
WITH_COPIES = {"parts"}  # quantized tensors, which the tests make of the plain reader's integers by copying


def test_the_files_are_those_that_were_recorded() -> None:
    files = list(GOLDEN_DIR.glob("files/*.cord"))
    assert {f"files/{path.name}" for path in files} == set(SUMS) == {f"files/{name}.cord" for name in GOLDEN}
    assert max(path.stat().st_size for path in files) <= 4096


@pytest.mark.parametrize("file", SUMS)
def test_bytes_have_not_changed(file: str) -> None:
    assert hashlib.sha256((GOLDEN_DIR / file).read_bytes()).hexdigest() == SUMS[file]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental", "ignore:.*quantize.*deprecated")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", GOLDEN)
def test_reads(name: str, reader: str) -> None:
    expected = GOLDEN[name].make()
    found = READERS[reader]((GOLDEN_DIR / "files" / f"{name}.cord").read_bytes(), trusted=GOLDEN[name].trusted)
    assert_same(expected, found, strides=False)
    if name not in WITH_COPIES:
        assert_shares_alike(expected, found)


def test_both_codings_are_among_them() -> None:
    coded = {}
    for name in GOLDEN:
        with zipfile.ZipFile(GOLDEN_DIR / "files" / f"{name}.cord") as archive:
            coded[name] = archive.read("manifest.json").count(b'"coding":"frame"')
    assert min(coded[f"frames-{goal}"] for goal in ("small", "balanced", "fast")) >= 2
    assert coded["example"] == 0
