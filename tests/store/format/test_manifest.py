"""store.json: read back as it was, or refused with a reason."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import FormatError, StorageError
from cordwood.native import _native
from cordwood.store.format import manifest as manifests
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.schema.node import Node, scalar
from cordwood.store.schema.schema import Schema

TREE = Node("dict", (Node("tensor", dtype="float32"), scalar("int"), Node("str")), ("x", "label", "путь"))
MANIFEST = Manifest(
    Schema(TREE, {"x": "float16"}),
    (
        FieldEntry("x", "small", "0123456789abcdef", "float16"),
        FieldEntry("label", "balanced", classes=("cat", "dog")),
        FieldEntry("путь", "balanced"),
    ),
    "balanced",
    123456,
)


def sealed(body: Any, version: Any = (1, 0), **more: Any) -> bytes:
    """A manifest with this body and the checksum that it then has."""
    crc = f"{_native.crc32c(manifests.canonical(body)):08x}"
    return json.dumps({"cordwood_store": version, "body": body, "crc32c": crc, **more}).encode()


def edited(path: str, value: Any) -> bytes:
    """The manifest with one member changed; a value of ... removes it."""
    body = copy.deepcopy(MANIFEST.to_json())
    at: Any = body
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split("/")]
    for step in steps:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return sealed(body)


@pytest.mark.parametrize("manifest", [MANIFEST, Manifest(), Manifest(goal="raw", shard_bytes=1)])
def test_it_comes_back(manifest: Manifest, tmp_path: Path) -> None:
    manifests.write(tmp_path, manifest)
    again = manifests.read(tmp_path)
    assert again == manifest
    assert again.plan_names == (("0123456789abcdef",) if manifest is MANIFEST else ())
    assert list(tmp_path.iterdir()) == [tmp_path / "store.json"]


def test_the_form_of_the_file_is_free() -> None:
    outer = json.loads(manifests.to_bytes(MANIFEST))
    assert manifests.from_bytes(json.dumps(outer, ensure_ascii=False).encode(), "here") == MANIFEST
    assert outer["cordwood_store"] == [1, 0]
    assert len(outer["crc32c"]) == 8


def test_every_byte_is_covered() -> None:
    data = manifests.to_bytes(MANIFEST)
    for at in range(len(data)):
        for bit in (1, 0x20):
            broken = bytearray(data)
            broken[at] ^= bit
            try:
                assert manifests.from_bytes(bytes(broken), "here") == MANIFEST
            except FormatError as error:
                assert "here: " in str(error)


def test_every_length_but_the_whole_is_refused() -> None:
    data = manifests.to_bytes(MANIFEST)
    for size in range(len(data.rstrip())):
        with pytest.raises(FormatError):
            manifests.from_bytes(data[:size], "here")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is JSON, but this is not"),
        (b"\xff\xfe\0", "is JSON, but this is not"),
        (b"[" * 100_000, "is JSON, but this is not"),
        (b"\xef\xbb\xbf" + manifests.to_bytes(MANIFEST), "is JSON, but this is not"),
        (manifests.to_bytes(MANIFEST).decode().encode("utf-16"), "is JSON, but this is not"),
        (b"[]", "'cordwood_store', which is missing"),
        (b"{}", "'cordwood_store', which is missing"),
        (b'{"cordwood_store": [1, 0]}', "the body is missing"),
        (b'{"cordwood_store": [1, 0], "cordwood_store": [1, 0]}', "two members of one name"),
        (b'{"cordwood_store": 1}', "the version is two numbers"),
        (b'{"cordwood_store": [true, 0]}', "the version is two numbers"),
        (sealed(MANIFEST.to_json(), (2, 0)), r"version 2\.0"),
        (sealed(MANIFEST.to_json(), (0, 9)), r"version 0\.9"),
        (sealed(MANIFEST.to_json(), crc32c="00000000"), "the body has checksum"),
        (sealed(MANIFEST.to_json(), crc32c=None), "the body has checksum"),
        (sealed({**MANIFEST.to_json(), "!groups": 1}), "'!groups' is a feature of a newer Cordwood"),
        (sealed({**MANIFEST.to_json(), "more": 1.5}), "not an integer"),
        (sealed({**MANIFEST.to_json(), "more": 1 << 63}), "does not fit 64 bits"),
        (b'{"cordwood_store": [1, ' + b"9" * 5000 + b"]}", "does not fit 64 bits"),
        (sealed({**MANIFEST.to_json(), "more": float("nan")}), "not an integer"),
        (edited("options", ...), "the options are missing"),
        (edited("options/goal", "tiny"), "the goal is 'tiny'"),
        (edited("options/goal", ["small"]), "the goal is"),
        (edited("options/shard_bytes", 0), "shard_bytes is 0"),
        (edited("options/shard_bytes", True), "shard_bytes is True"),
        (edited("fields", ...), "the list of fields is missing"),
        (edited("fields", []), "the schema has 3 fields|the schema's are"),
        (edited("fields/0", 7), "a field without a name"),
        (edited("fields/0/name", 7), "a field without a name"),
        (edited("fields/0/name", "y"), "the fields are"),
        (edited("fields/0/goal", "tiny"), "field 'x': the goal"),
        (edited("fields/0/plan", "../secret"), "field 'x': the plan"),
        (edited("fields/0/plan", 7), "field 'x': the plan"),
        (edited("fields/0/store_as", "float7"), "field 'x': store_as"),
        (edited("fields/0/store_as", []), "field 'x': store_as"),
        (edited("fields/0/store_as", "int8"), "cannot be"),
        (edited("fields/1/store_as", "float16"), "cannot be"),
        (edited("fields/1/classes", "cat"), "field 'label': the classes"),
        (edited("fields/1/classes", [1]), "field 'label': the classes"),
        (edited("schema", 5), "where a node is expected"),
        (edited("schema", None), "the fields are"),
        (edited("schema/kind", "set"), "kind 'set'"),
    ],
)
def test_manifests_that_cannot_be(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=f"^here: .*({said})"):
        manifests.from_bytes(data, "here")


def test_a_newer_minor_version_and_unknown_members_are_read() -> None:
    body = {**MANIFEST.to_json(), "colour": {"a": [1, None]}}
    assert manifests.from_bytes(sealed(body, (1, 7), more=1), "here") == MANIFEST


def test_no_file_and_no_regular_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="manifest cannot be read"):
        manifests.read(tmp_path)
    os.mkfifo(tmp_path / "store.json")
    with pytest.raises(FormatError, match="not a regular file"):
        manifests.read(tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "store.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="has at most"):
        manifests.read(tmp_path)
