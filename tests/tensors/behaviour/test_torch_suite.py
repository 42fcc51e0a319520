"""PyTorch's own tests, which are not part of this repository: their differences are those that the page tells."""

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.tensors.support import torch_suite
from tests.tensors.support.torch_differences import DAMAGE, DEVICES, EXPLAINED, RUN, WORDS

PAGE = (Path(__file__).parents[3] / "docs" / "tensors.md").read_text("utf-8")
SUITE = """
import io, unittest, torch

class TestSerialization(unittest.TestCase):
    def test_passes(self):
        file = io.BytesIO()
        torch.save(torch.arange(3), file)
        file.seek(0)
        self.assertEqual(torch.load(file, weights_only=True).tolist(), [0, 1, 2])

    def test_pickle_module(self):
        file = io.BytesIO()
        torch.save(1, file)
        file.seek(0)
        torch.load(file, pickle_module=__import__("pickle"), weights_only=False)

    def test_new(self):
        torch.save(1, io.BytesIO(), pickle_protocol=3)

    @unittest.skip("on a GPU only")
    def test_skipped(self):
        pass

    def test_serialization_2gb_file(self):
        self.fail("too large")
"""


@pytest.mark.parametrize("format", ["torch", "pt", "cord"])
def test_the_tests_that_fail_are_printed_with_the_difference_that_explains_them(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_serialization.py").write_text(SUITE)
    for name in ("save", "load"):
        monkeypatch.setattr(torch, name, getattr(torch, name))
    monkeypatch.setattr("sys.argv", ["suite"])
    monkeypatch.setenv("PYTORCH_PRINT_REPRO_ON_FAILURE", "1")
    monkeypatch.delitem(sys.modules, "test_serialization", raising=False)
    code = torch_suite.main([str(tmp_path / "test_serialization.py"), "--format", format])
    out = capsys.readouterr().out
    if format == "torch":
        assert (code, out) == (0, "3 passed, 0 failed, 1 skipped\n")
        return
    assert code == 1
    assert "TestSerialization.test_new\n    NOT EXPLAINED\n    TypeError: cw.save does not take pickle_protocol" in out
    assert "TestSerialization.test_pickle_module\n    `pickle_module=`" in out
    assert "\n1 passed, 2 failed, 1 skipped\n" in out


@pytest.mark.parametrize("format", EXPLAINED)
def test_the_page_has_the_words_that_explain_a_failure(format: str) -> None:
    assert {words for words in EXPLAINED[format].values() if words not in PAGE} == set()


def test_the_counts_of_the_page_are_those_of_the_list() -> None:
    told = re.search(r"Of (\d+) tests .*? (\d+) pass with `\.pt` files and (\d+) with `\.cord` files", PAGE)
    assert told is not None
    assert [int(count) for count in told.groups()] == [RUN, *(RUN - len(EXPLAINED[one]) for one in ("pt", "cord"))]
    only_words = sum(words in (WORDS, DEVICES, DAMAGE) for words in EXPLAINED["pt"].values())
    assert f"{only_words} compare the words or the type of an error" in PAGE
