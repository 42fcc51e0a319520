"""Every number of "A reader must reject": the plain reader gives that very number, the package a FormatError."""

import re
from typing import Any

import pytest
import torch

from tests.format.tensors.bad_tensors import BAD, Bad, allowed_files
from tests.format.tensors.craft_tensors import Call, Crafted, Name
from tests.format.tensors.tensor_readers import PAGE, READERS, REFUSALS, plain

ALLOWED = allowed_files()


def test_every_number_of_the_page_has_a_case() -> None:
    listed = PAGE.read_text(encoding="utf-8").split("## A reader must reject")[1].split("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", listed, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {bad.number for bad in BAD} == set(numbers)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bad", BAD, ids=[f"{bad.number}: {bad.label}" for bad in BAD])
def test_rejects(bad: Bad, reader: str) -> None:
    with pytest.raises(REFUSALS[reader]) as caught:
        READERS[reader](bad.file)
    assert reader != "plain" or caught.value.number == bad.number


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ALLOWED)
def test_reads_all_else(name: str, reader: str) -> None:
    (found,) = READERS[reader](ALLOWED[name]).items()
    assert found[0] == "w"
    assert torch.equal(found[1], torch.tensor([1.0, 2.0, 3.0, 4.0]))


EVIL: Any = Call(Name("os", "system"), ("exit 1",))


def test_nothing_is_run() -> None:
    found = plain.read(Crafted().with_value({"w": EVIL}).file())["w"]
    assert (str(found.function), found.arguments) == ("os.system", ("exit 1",))
    with pytest.raises(REFUSALS["cordwood"], match=r"os\.system"):
        READERS["cordwood"](Crafted().with_value({"w": EVIL}).file())


def test_the_limit_is_the_callers() -> None:
    file = Crafted().file()
    assert plain.read(file, limit=16)["w"].array.tolist() == [1, 2, 3, 4]
    with pytest.raises(plain.BadFile) as caught:
        plain.read(file, limit=15)
    assert caught.value.number == 21
