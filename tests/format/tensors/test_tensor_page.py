"""The page of the tensor files says what is so: its example is a file, its tables are those of readers and writer."""

import pickletools
import re

import torch

from tests.format.support.readers import ROOT
from tests.format.tensors.tensor_readers import PAGE, plain
from tests.golden.tensors.objects import GOLDEN

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLE = ROOT / "tests" / "golden" / "tensors" / "files" / "example.cord"


def test_the_example_is_a_golden_file() -> None:
    dump = TEXT.split("```text\n")[1].split("\n```")[0]
    lines = [(int(line[:4], 16), bytes.fromhex(line[6:53])) for line in dump.splitlines()]
    data = b"".join(part for _, part in lines)
    assert data == EXAMPLE.read_bytes()
    offset = 0
    for at, part in lines:
        assert at == offset
        offset += len(part)
    assert f"this file of {len(data)} bytes" in TEXT


def test_the_manifest_of_the_example_is_in_it() -> None:
    manifest = TEXT.split("```json\n")[1].split("\n```")[0]
    assert manifest.encode() == plain.Archive(EXAMPLE.read_bytes()).content("manifest.json", checked=True)


def test_what_the_page_says_of_the_example_is_so() -> None:
    found = plain.read(EXAMPLE)
    assert list(found) == list(GOLDEN["example"].make())
    assert found["w"].array.tolist() == [1, 2, 3, 4]
    found["w"].array[1] = 9
    assert found["row"].array.tolist() == [9, 3]


def test_opcodes_have_their_names_and_bytes() -> None:
    table = TEXT.split("| opcode | byte(s) |")[1].split("\n\n")[0]
    listed: dict[str, str] = {}
    for names, codes in re.findall(r"^\| ([A-Z][A-Z0-9_, ]+) \| ([^|]+) \|", table, re.MULTILINE):
        codes = re.findall(r"`([^`]+)`", codes)
        assert len(names.split(", ")) == len(codes), names
        listed.update(zip(names.split(", "), codes, strict=True))
    known = {opcode.name: opcode.code for opcode in pickletools.opcodes}
    for name, code in listed.items():
        assert code in (known[name], known[name].encode("latin1").hex()), name
    assert len(listed) == 35


def test_every_opcode_of_the_golden_files_is_listed() -> None:
    table = TEXT.split("| opcode | byte(s) |")[1].split("\n\n")[0]
    used = {
        opcode.name
        for path in EXAMPLE.parent.glob("*.cord")
        for opcode, _, _ in pickletools.genops(plain.Archive(path.read_bytes()).content("data.pkl"))
    }
    assert len(used) > 25
    assert used <= set(re.findall(r"[A-Z][A-Z0-9_]+", table))


def test_storage_classes_are_those_of_torch() -> None:
    table = TEXT.split("| class (`torch ...`) |")[1].split("\n\n")[0]
    listed = dict(re.findall(r"`(?:torch\.storage )?(\w+Storage)` \| (\w+)", table))
    assert listed.pop("UntypedStorage") == "uint8"
    names = torch.storage._dtype_to_storage_type_map()
    assert listed == {name: str(dtype).removeprefix("torch.") for dtype, name in names.items()}
    assert {name.rpartition(".")[2]: dtype for name, dtype in plain.STORAGES.items()} == {
        **listed,
        "UntypedStorage": "uint8",
    }


def test_dtypes_have_torchs_sizes() -> None:
    for name, carrier in plain.DTYPES.items():
        dtype = getattr(torch, name, None)
        if dtype is not None:  # an older torch lacks some
            assert dtype.itemsize == plain.np.dtype(carrier).itemsize, name
    known = {str(getattr(torch, name)) for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    assert {name.removeprefix("torch.") for name in known} <= set(plain.DTYPES)


def test_functions_are_named_on_the_page() -> None:
    for name in plain.FUNCTIONS:
        module, _, function = name.rpartition(".")
        module = module.replace("builtins", "__builtin__")
        assert f"`{module} {function}`" in TEXT, name
