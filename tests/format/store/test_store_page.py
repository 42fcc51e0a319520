"""The page of the stores says what is so: its example is a golden store, its tables are those of the readers."""

import json
import re
from collections import OrderedDict

import numpy as np
import torch

from cordwood.store.format import rows as layout
from cordwood.store.format import shard_file, shard_index
from cordwood.store.schema import node, schema
from cordwood.store.values import any_value
from tests.format.store.store_readers import PAGE, plain
from tests.format.support.readers import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLE = ROOT / "tests" / "golden" / "store" / "example.cordwood"


def block(before: str, kind: str) -> str:
    """What is in the first fenced block behind a text."""
    return TEXT.split(before, 1)[1].split(f"```{kind}\n", 1)[1].split("\n```", 1)[0]


def dumped(before: str, start: int = 0) -> bytes:
    """The bytes of a dump, whose lines say where they are."""
    found = b""
    for line in block(before, "text").splitlines():
        assert int(line[:4], 16) == start + len(found)
        found += bytes.fromhex(line[6:53])
    return found


def test_the_example_is_a_golden_store() -> None:
    assert block("`store.json`:\n", "json") + "\n" == (EXAMPLE / "store.json").read_text(encoding="utf-8")
    (plan,) = (EXAMPLE / "plans").glob("*.json")
    assert block(f"`plans/{plan.name}`, a plan", "json") == plan.read_text(encoding="utf-8")
    assert dumped("`shards.bin`, in hexadecimal") == (EXAMPLE / "shards.bin").read_bytes()
    shard = (EXAMPLE / "shard-00000000.cws").read_bytes()
    assert f"`shard-00000000.cws`, {len(shard)} bytes" in TEXT
    before, footer = dumped("bytes, in hexadecimal up to its footer"), block("The footer, from", "json").encode()
    assert f"The footer, from {len(before):04x} on" in TEXT
    assert before + footer + dumped("The trailer:\n", len(before) + len(footer)) == shard
    names = {path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*") if path.is_file()}
    assert names == {"store.json", "shards.bin", "shard-00000000.cws", f"plans/{plan.name}"}


def test_sizes_on_the_page_are_those_of_the_library() -> None:
    assert rows_size("## shards.bin") == shard_index.RECORD.itemsize
    assert rows_size("| field of the header |") == shard_file.HEADER_SIZE
    assert rows_size("| field of the trailer |") == shard_file.TRAILER_SIZE
    root = node.Node("list", items=(node.Node("str"), node.scalar("int"), node.scalar("numpy", "int16")))
    made = layout.RowLayout(schema.Schema(root))
    assert made.row_size == 2 * 8 + 4 + 8 + 2 + 1 + 4


def rows_size(before: str) -> int:
    """The sum of the sizes in a table."""
    table = TEXT.split(before, 1)[1].split("| --- |", 1)[1].split("\n\n")[0]
    total = 0
    for size in re.findall(r"^\| [^|]+ \| ([^|]+) \|", table, re.MULTILINE):
        total += int(size) if size.isdigit() else sum(int(bits) // 8 for bits in re.findall(r"u(\d+)", size))
    return total


def test_kinds_are_those_of_the_library() -> None:
    table = TEXT.split("| kind | members |", 1)[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    kinds = {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}
    assert kinds == set(plain.MEMBERS) == {*node.CONTAINERS, *node.FRAME_LEAVES, "scalar", "none"}
    assert set(plain.PYTHON_NUMBERS.items()) == set(node.PYTHON_NUMBERS.items())
    assert set(plain.DTYPES) - set(plain.NUMPY_HAS) == set(node.NOT_OF_NUMPY)
    assert plain.DEEPEST == node.DEEPEST == any_value.DEEPEST
    assert plain.MOST_NODES == schema.MOST_PLACES


def test_tags_of_any_value_are_those_of_the_library() -> None:
    made: list[object] = [
        None, False, True, 5, 0.5, 1j, "a", b"a", [], (), {}, OrderedDict(), None,
        torch.zeros(1), np.zeros(1), np.float32(1),
    ]  # fmt: skip
    point = plain.named("Point", ["x"], [1])
    tags = [any_value.encode(point if number == 12 else value)[0] for number, value in enumerate(made)]
    assert tags == list(range(16))


def test_members_of_the_footer_are_listed() -> None:
    footer = json.loads(block("The footer, from", "json"))
    table = TEXT.split("### The footer", 1)[1].split("\n## ")[0]
    for member in footer:
        assert f"`{member}`" in table, member
    for member in footer["fields"][0]:
        assert f"`{member}`" in table, member
    assert footer["store"] == json.loads(block("`store.json`:\n", "json"))["body"]
