"""The types of a manifest's columns: decided by all rows, wherever the odd one lies."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import FormatError
from tests.sources import photos
from tests.sources.manifests import manifest, samples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    photos.write(tmp_path, "cat/1.png", "3.png")
    return tmp_path


class TestCsv:
    @pytest.mark.parametrize("blank", ["", " ", "\t "])
    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_an_empty_cell_among_numbers_is_nan_and_reported(self, root: Path, blank: str, at: int) -> None:
        cells = [["1", "0.5", "a"], ["2", "1.5", "b"]]
        cells.insert(at, [blank, blank, blank])
        source = manifest(root, "path,age,size,note\n" + "".join(f"3.png,{','.join(row)}\n" for row in cells))
        found = samples(source)
        assert [type(sample["age"]) for sample in found] == [float] * 3
        ages, sizes = ([sample[name] for sample in found] for name in ("age", "size"))
        notes = [sample["note"].strip("\t ") for sample in found]
        for values, nothing, rest in ((ages, "nan", [1.0, 2.0]), (sizes, "nan", [0.5, 1.5]), (notes, "", ["a", "b"])):
            assert str(values.pop(at)) == nothing
            assert values == rest
        assert source.notes == [
            "column 'age': 1 empty cell of 3 became NaN",
            "column 'size': 1 empty cell of 3 became NaN",
        ]

    def test_numbers_that_a_float_cannot_hold_stay_text_beside_empty_cells(self, root: Path) -> None:
        source = manifest(root, "path,id\n3.png,9007199254740993\ncat/1.png,\n3.png,5\n")
        assert [sample["id"] for sample in samples(source)] == ["9007199254740993", "", "5"]
        (note,) = source.notes
        assert note.startswith("column 'id' has 1 empty cell, so it would be float64, which loses digits")
        source = manifest(root, "path,id\n3.png,9007199254740993\ncat/1.png,0.5\n")
        assert [sample["id"] for sample in samples(source)] == ["9007199254740993", "0.5"]
        (note,) = source.notes
        assert note.startswith("column 'id' has decimals, so it would be float64, which loses digits")
        source = manifest(root, "path,id\n3.png,9007199254740992\ncat/1.png,\n")
        assert samples(source)[0]["id"] == 2.0**53

    @pytest.mark.parametrize("odd", ["x", "NA", "007"])
    @pytest.mark.parametrize("name", ["age", "label"])
    @pytest.mark.parametrize("at", [0, 7, 29])
    def test_numbers_that_are_text_because_of_an_odd_cell_are_reported(
        self, root: Path, odd: str, name: str, at: int
    ) -> None:
        cells = [str(number) for number in range(30)]
        cells[at] = odd
        source = manifest(root, f"path,{name}\n" + "".join(f"3.png,{cell}\n" for cell in cells))
        assert source.notes == [f"column '{name}' is text because of '{odd}' in line {at + 2}"]

    @pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 1234567890123456789])
    def test_whole_numbers_of_64_bits_are_numbers(self, root: Path, number: int) -> None:
        source = manifest(root, f"path,id\n3.png,{number}\ncat/1.png,5\n")
        assert [sample["id"] for sample in samples(source)] == [number, 5]
        assert source.notes == []

    @pytest.mark.parametrize("number", [str(2**63), str(-(2**63) - 1), "9" * 5000])
    @pytest.mark.parametrize("others", [["5", "7"], [str(10**20)] * 200])
    def test_whole_numbers_that_do_not_fit_are_text_and_reported(
        self, root: Path, number: str, others: list[str]
    ) -> None:
        cells = [number, *others]
        source = manifest(root, "path,id\n" + "".join(f"3.png,{cell}\n" for cell in cells))
        assert [sample["id"] for sample in samples(source)] == cells
        (note,) = source.notes
        assert note.startswith(f"column 'id' is text because of '{number[:9]}")
        assert note.endswith(" in line 2, which does not fit 64 bits")

    def test_text_with_some_numbers_in_it_is_not_reported(self, root: Path) -> None:
        for cells in (["x"] * 2 + ["1"] * 17, ["a cat"] * 300 + ["1"] * 300):
            assert manifest(root, "path,note\n" + "".join(f"3.png,{cell}\n" for cell in cells)).notes == []
        assert manifest(root, f"path,note\n3.png,{10**20}\n3.png,a cat\n").notes == []

    def test_a_column_of_empty_cells_is_text(self, root: Path) -> None:
        source = manifest(root, "path,note\n3.png,\ncat/1.png,\n")
        assert [sample["note"] for sample in samples(source)] == ["", ""]
        assert source.notes == []

    def test_many_columns_are_reported_in_short(self, root: Path) -> None:
        names = [f"n{number}" for number in range(20)]
        source = manifest(root, f"path,{','.join(names)}\n3.png{',1' * 20}\n3.png{',' * 20}\n")
        assert len(source.notes) == 9
        assert source.notes[-1] == "and 12 more columns with missing values"

    @pytest.mark.parametrize("delimiter", [", ", "; ", ",  ", " , "])
    def test_blanks_beside_values_are_no_part_of_them(self, root: Path, delimiter: str) -> None:
        rows = [["path", "label", "age", "note"], ["3.png", "cat", "1", '"a, b"'], ["cat/1.png", "dog ", " 2", "c"]]
        text = "".join(delimiter.join(row) + "\n" for row in rows).replace("png ", "png")
        source = manifest(root, text)
        assert source.classes == {"label": ["cat", "dog"]}
        assert [sample["age"] for sample in samples(source)] == [1, 2]
        assert [sample["note"].strip() for sample in samples(source)] == ["a, b", "c"]
        assert [sample["path"] for sample in samples(source)] == ["3.png", "cat/1.png"]

    def test_blanks_behind_a_tab_are_part_of_a_text(self, root: Path) -> None:
        source = manifest(root, "path\tlabel\tnote\n3.png\t cat\t a\n")
        assert source.classes == {"label": ["cat"]}
        assert samples(source)[0]["note"] == " a"


class TestJsonLines:
    @pytest.mark.parametrize("at", [0, 1, 300, 600])
    def test_a_key_of_one_row_is_a_key_of_all(self, root: Path, at: int) -> None:
        special = {"age": 3, "size": 0.5, "note": "n", "seen": True, "boxes": [1], "meta": {"a": 1}}
        rows = [{"path": "3.png", **(special if number == at else {})} for number in range(601)]
        source = manifest(root, "".join(json.dumps(row) + "\n" for row in rows), "list.jsonl")
        nothing = {"path": "3.png", "age": math.nan, "size": math.nan, "note": "", "seen": None}
        nothing |= {"boxes": None, "meta": None}
        found = samples(source)
        assert repr(found.pop(at)) == repr({"path": "3.png", **special, "age": 3.0})
        assert {repr(sample) for sample in found} == {repr(nothing)}
        assert source.varying == ["seen", "boxes", "meta"]
        assert source.notes == [
            *(f"key {name!r}: 600 rows of 601 without a value got NaN" for name in ("age", "size")),
            "key 'note': 600 rows of 601 without a value got an empty text",
            *(f"key {name!r}: 600 rows of 601 without a value got None" for name in ("seen", "boxes", "meta")),
        ]

    @pytest.mark.parametrize(
        ("values", "expected", "varies"),
        [
            ([1, None], [1.0, math.nan], False),
            (["a", None], ["a", ""], False),
            ([None, None], [None, None], True),
            ([1, "a"], [1, "a"], True),
            ([True, False], [True, False], False),
            ([True, 1], [True, 1], True),
            ([1, 0.5], [1.0, 0.5], False),
            ([2**53 + 1, 0.5], [2**53 + 1, 0.5], True),
            ([2**53 + 1, None], [2**53 + 1, None], True),
            ([2**53, None], [2.0**53, math.nan], False),
            ([2**63, 1], [2**63, 1], True),
            ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}], False),
            ([{"a": 1}, {"a": "x"}], [{"a": 1}, {"a": "x"}], True),
            ([{"a": 1}, {"a": 1, "b": 2}], [{"a": 1}, {"a": 1, "b": 2}], True),
        ],
    )
    def test_types_that_hold_all_rows(self, root: Path, values: list[Any], expected: list[Any], varies: bool) -> None:
        for order in (1, -1):
            text = "".join(json.dumps({"path": "3.png", "x": value}) + "\n" for value in values[::order])
            source = manifest(root, text, "list.jsonl")
            assert repr([sample["x"] for sample in samples(source)]) == repr(expected[::order])
            assert source.varying == ["x"] * varies

    def test_objects_in_objects_have_an_end(self, root: Path) -> None:
        text = '{"path": "3.png", "x": ' + '{"a": ' * 300 + "1" + "}" * 301
        assert manifest(root, text, "list.jsonl").count == 1

    def test_too_many_keys(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cordwood.sources.kinds.manifest_columns._MOST_KEYS", 3)
        text = "".join(json.dumps({"path": "3.png", f"k{number}": 1}) + "\n" for number in range(4))
        with pytest.raises(FormatError, match=r"list\.jsonl, line 4: more than 3 different keys"):
            manifest(root, text, "list.jsonl")
