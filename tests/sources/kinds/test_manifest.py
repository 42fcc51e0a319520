"""Manifests: rows, labels, columns, and paths that must not be followed."""

import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources import SourceOptions, find
from cordwood.sources.kinds.manifest import checked_path
from tests.sources import photos
from tests.sources.manifests import manifest, samples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    photos.write(tmp_path, "cat/1.png", "dog/2.png", "3.png")
    return tmp_path


class TestCsv:
    def test_text_labels_become_classes(self, root: Path) -> None:
        source = manifest(root, "path,label\n3.png,rabbit\ncat/1.png,cat\ndog/2.png,dog\n")
        assert source.kind == "manifest"
        assert source.count == 3
        assert source.classes == {"label": ["cat", "dog", "rabbit"]}
        assert samples(source) == [
            {"label": 2, "path": "3.png"},
            {"label": 0, "path": "cat/1.png"},
            {"label": 1, "path": "dog/2.png"},
        ]

    def test_pixels_are_those_of_the_row(self, root: Path) -> None:
        source = manifest(root, "path\n3.png\ncat/1.png\n")
        images = [source.reader()(each.handle)["image"] for each in source.inputs()]
        assert np.array_equal(images[0].permute(1, 2, 0), photos.pixels(2))
        assert np.array_equal(images[1].permute(1, 2, 0), photos.pixels(0))

    @pytest.mark.parametrize(
        ("written", "labels", "classes"),
        [
            (["3", "-1"], [3, -1], {}),
            (["3", "0.5"], [3.0, 0.5], {}),
            (["007", "3"], [0, 1], {"label": ["007", "3"]}),
            (["3", "007"], [1, 0], {"label": ["007", "3"]}),
            (["-07", "1"], [0, 1], {"label": ["-07", "1"]}),
            (["0", "-2"], [0, -2], {}),
            (["3", "b"], [0, 1], {"label": ["3", "b"]}),
            (["1_0", "2"], [0, 1], {"label": ["1_0", "2"]}),
        ],
    )
    def test_labels(self, root: Path, written: list[str], labels: list[Any], classes: dict[str, Any]) -> None:
        source = manifest(root, f"path,label\n3.png,{written[0]}\ncat/1.png,{written[1]}\n")
        found = [sample["label"] for sample in samples(source)]
        assert found == labels
        assert [type(label) for label in found] == [type(label) for label in labels]
        assert source.classes == classes

    def test_other_columns_are_numbers_or_text_as_all_their_rows_are(self, root: Path) -> None:
        source = manifest(root, "path,age,weight,note,zip\n3.png,1,2,a,\ncat/1.png,-5,2.5,7,012\n")
        assert samples(source) == [
            {"path": "3.png", "age": 1, "weight": 2.0, "note": "a", "zip": ""},
            {"path": "cat/1.png", "age": -5, "weight": 2.5, "note": "7", "zip": "012"},
        ]

    @pytest.mark.parametrize(
        ("written", "values"),
        [
            (["0012", "5"], ["0012", "5"]),
            (["5", "0012"], ["5", "0012"]),
            (["0.5", "00.5"], ["0.5", "00.5"]),
            (["0.50", "1e-3"], [0.5, 0.001]),
            ([".5", "5."], [0.5, 5.0]),
            (["0", "0.0"], [0.0, 0.0]),
            (["+3", "4"], [3.0, 4.0]),
            (["nan", "-inf"], [float("nan"), float("-inf")]),
            (["123456789012345678", "1"], [123456789012345678, 1]),
            (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
            (["12345678901234567890", "0.5"], ["12345678901234567890", "0.5"]),
            (["1.", "."], ["1.", "."]),
            (["1e5", "e5"], ["1e5", "e5"]),
            (["0x1", "1"], ["0x1", "1"]),
        ],
    )
    def test_codes_are_text_and_lose_no_digit(self, root: Path, written: list[str], values: list[Any]) -> None:
        source = manifest(root, f"path,code\n3.png,{written[0]}\ncat/1.png,{written[1]}\n")
        found = [sample["code"] for sample in samples(source)]
        assert [type(value) for value in found] == [type(value) for value in values]
        assert repr(found) == repr(values)

    @pytest.mark.parametrize("line", [2, 3])
    @pytest.mark.parametrize("column", ["label", "note"])
    def test_values_that_are_no_utf8_are_refused_with_their_line(self, root: Path, line: int, column: str) -> None:
        rows = [b"3.png,cat\n", b"cat/1.png,dog\n"]
        rows[line - 2] = rows[line - 2].replace(b"\n", b" \xe9\n")
        header = f"path,{column}\n".encode()
        told = (
            rf"list\.csv, line {line}: column '{column}' has the byte 0xE9, .* iconv -f WINDOWS-1252 -t UTF-8 list\.csv"
        )
        with pytest.raises(FormatError, match=told):
            manifest(root, header + b"".join(rows))
        # The same text in UTF-8 is kept.
        source = manifest(root, header + b"".join(rows).decode("latin-1").encode())
        texts = source.classes.get("label") or [sample["note"] for sample in samples(source)]
        assert any("é" in text for text in texts)

    def test_a_header_that_is_no_utf8(self, root: Path) -> None:
        with pytest.raises(FormatError, match=r"list\.csv, line 2: column 'caf.' has the byte 0xE9"):
            manifest(root, b"\npath,caf\xe9\n3.png,1\n")

    @pytest.mark.parametrize(
        "row",
        [
            b'{"path": "3.png", "a": {"b": ["\xe9"]}}',
            b'{"path": "3.png", "a\xe9": 1}',
            b'{"path": "3.png", "a": "\xe9"}',
        ],
    )
    def test_json_lines_that_are_no_utf8(self, root: Path, row: bytes) -> None:
        with pytest.raises(FormatError, match=r"list\.jsonl, line 2: column 'a.* has the byte 0xE9"):
            manifest(root, b'{"path": "3.png"}\n' + row + b"\n", "list.jsonl")

    def test_a_column_without_a_name_is_left_out_and_reported(self, root: Path) -> None:
        source = manifest(root, "path,,c\n3.png,1,2\n")
        assert samples(source) == [{"path": "3.png", "c": 2}]
        assert source.notes == ["column 2 has no name in the header and is left out"]

    def test_quotes_line_ends_blank_lines_and_a_byte_order_mark(self, root: Path) -> None:
        text = '\ufeff\r\npath,note\r\n3.png,"a, ""b""\r\nc"\r\n\r\ncat/1.png,d\r\n'
        assert [sample["note"] for sample in samples(manifest(root, text))] == ['a, "b"\r\nc', "d"]

    @pytest.mark.parametrize("delimiter", [",", "\t", ";"])
    def test_delimiters(self, root: Path, delimiter: str) -> None:
        source = manifest(root, "label|Path\n2|3.png\n".replace("|", delimiter), "list.tsv")
        assert samples(source) == [{"label": 2, "path": "3.png"}]

    def test_the_index_that_pandas_writes_is_left_out(self, root: Path) -> None:
        assert samples(manifest(root, ",path,Label\n0,3.png,4\n")) == [{"label": 4, "path": "3.png"}]

    @pytest.mark.parametrize("column", ["path", "file_name", "filename", "file", "image", "PATH"])
    def test_names_of_the_path_column(self, root: Path, column: str) -> None:
        assert samples(manifest(root, f"{column},label\n./3.png,4\n")) == [{"label": 4, "path": "3.png"}]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("path,label\n3.png,1\n3.png\n", "list.csv, line 3: 1 value, but the header names 2 columns"),
            ("path,label\n3.png,\n", "line 2: the label is empty"),
            ("path,label,label\n3.png,1,2\n", "two columns have the same name"),
            ("path,image\n3.png,1\n", "line 2: a column 'image' beside 'path'"),
            ('path,note\n3.png,"open\n', "line 2: unexpected end of data"),
            ("path,note\n3.png," + "x" * 140_000 + "\n", "line 2: field larger than field limit"),
            ("path,note\n3.png," + "x" * 1_100_000 + "\n", "line 2: it has more than 1,048,576 bytes"),
        ],
    )
    def test_bad_rows_are_named(self, root: Path, text: str, message: str) -> None:
        with pytest.raises(FormatError, match=message):
            manifest(root, text)

    def test_lines_of_blanks_are_passed_over(self, root: Path) -> None:
        source = manifest(root, "path,a,b\n3.png,1,2\n   \n \t\n3.png,3,4\n")
        assert [sample["a"] for sample in samples(source)] == [1, 3]

    def test_a_header_alone(self, root: Path) -> None:
        with pytest.raises(UsageError, match="a header and no rows"):
            manifest(root, "path,label\n")

    def test_captions_in_the_place_of_labels(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cordwood.sources.kinds.manifest_columns._MOST_CLASSES", 2)
        assert manifest(root, "path,label\n" + "".join(f"3.png,{n}\n" for n in range(9))).classes == {}
        with pytest.raises(FormatError, match="more than 2 different labels that are text are no classes"):
            manifest(root, "path,label\n" + "".join(f"3.png,l{n}\n" for n in range(9)))


class TestJsonLines:
    def test_values_keep_their_types(self, root: Path) -> None:
        rows = [
            {"path": "3.png", "label": "b", "age": 3, "weight": 1, "boxes": [[1, 2]], "seen": True},
            {"path": "cat/1.png", "label": "a", "age": 4, "weight": 0.5, "boxes": [], "seen": False},
        ]
        source = manifest(root, "\n\n".join(map(json.dumps, rows)), "list.jsonl")
        assert source.classes == {"label": ["a", "b"]}
        assert samples(source) == [{**rows[0], "label": 1, "weight": 1.0}, {**rows[1], "label": 0}]
        assert isinstance(samples(source)[0]["weight"], float)

    def test_labels_that_are_lists_stay_lists(self, root: Path) -> None:
        source = manifest(root, '{"path": "3.png", "label": [1, 2]}\n', "list.jsonl")
        assert samples(source) == [{"label": [1, 2], "path": "3.png"}]

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            ('{"path": "3.png", "label": 2}', "line 2: the label is 2, and some labels are text and some are not"),
            ('{"path": "3.png"}', "line 2: some rows have a label and some have none"),
            ('{"path": "3.png", "label": null}', "line 2: the label is empty"),
            ('{"label": "a"}', "line 2: the path is None"),
            ('{"path": 3, "label": "a"}', "line 2: the path is 3"),
            ('["3.png"]', "line 2: a JSON object is expected"),
            ("{", "line 2: no JSON"),
            ("[" * 100_000, "line 2: no JSON"),
        ],
    )
    def test_bad_rows_are_named(self, root: Path, second: str, message: str) -> None:
        with pytest.raises(FormatError, match=message):
            samples(manifest(root, '{"path": "3.png", "label": "a"}\n' + second, "list.jsonl"), 1)


class TestRows:
    def test_from_any_number_on(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cordwood.sources.kinds.manifest._MARKED", 4)
        source = manifest(root, "path,note\n" + "".join(f'3.png,"{n}\n"\n' for n in range(11)))
        whole = [given.handle[1]["note"] for given in source.inputs()]
        assert whole == [f"{n}\n" for n in range(11)]
        for start in range(13):
            assert [given.handle[1]["note"] for given in source.inputs(start)] == whole[start:]

    def test_a_file_in_several_rows_has_names_of_its_own(self, root: Path) -> None:
        source = manifest(root, "path,note\n3.png,a\ncat/1.png,b\n./3.png,c\n3.png,d\n")
        assert [given.name for given in source.inputs()] == ["3.png", "cat/1.png", "3.png#2", "3.png#3"]
        assert [sample["path"] for sample in samples(source)] == ["3.png", "cat/1.png", "3.png", "3.png"]

    def test_sizes_and_dates(self, root: Path) -> None:
        there, missing = manifest(root, "path\n3.png\nmissing.png\n").inputs()
        status = (root / "3.png").stat()
        assert (there.size, there.stamp) == (status.st_size, status.st_mtime_ns)
        (with_more,) = manifest(root, "path,note\n3.png,a\n").inputs()
        (with_other,) = manifest(root, "path,note\n3.png,b\n").inputs()
        assert len({there.stamp, with_more.stamp, with_other.stamp}) == 3
        assert (missing.size, missing.stamp) == (None, None)

    def test_what_is_missing_is_named_when_it_is_read(self, root: Path) -> None:
        source = manifest(root, "path\n3.png\nno/such.png\n")
        with pytest.raises(StorageError, match=r"no/such\.png: it cannot be read"):
            samples(source, 1)

    def test_a_pipe_is_not_opened(self, root: Path) -> None:
        os.mkfifo(root / "pipe.png")
        with pytest.raises(FormatError, match="it is no plain file"):
            samples(manifest(root, "path\npipe.png\n"))

    def test_names_that_are_no_text(self, root: Path) -> None:
        (root / "3.png").rename(os.fsdecode(os.fsencode(root) + b"/\xff.png"))
        source = manifest(root, b"path\n\xff.png\n")
        (only,) = source.inputs()
        assert only.name is not None
        assert os.fsencode(only.name) == b"\xff.png"
        assert only.size is not None
        assert samples(source) == [{"path": only.name}]

    def test_a_manifest_that_changed_is_not_mixed_with_what_it_was(self, root: Path) -> None:
        source = manifest(root, "path\n3.png\n")
        manifest(root, "path\ncat/1.png\n3.png\n")
        with pytest.raises(StorageError, match=r"list\.csv was changed"):
            list(source.inputs())

    @pytest.mark.parametrize("change", ["row", "file"])
    def test_the_fingerprint_tells_of_changes(self, root: Path, change: str) -> None:
        before = manifest(root, "path\n3.png\n").fingerprint()
        assert manifest(root, "path\n3.png\n").fingerprint() == before
        if change == "file":
            (root / "3.png").write_bytes(photos.encoded(9))
            os.utime(root / "3.png", ns=(1, 1))
        assert manifest(root, "path\n3.png\n" + "3.png\n" * (change == "row")).fingerprint() != before


class TestPathsThatLead:
    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("../secret.png", "leads out of a folder"),
            ("cat/../../secret.png", "leads out of a folder"),
            ("cat/..", "leads out of a folder"),
            ("/etc/passwd", r"no path below the manifest's folder: .*absolute_paths=True \(--absolute-paths\)"),
            ("~/secret.png", "no path below the manifest's folder"),
            ("https://example.org/1.png", "is an address"),
            ("file:///etc/passwd", "is an address"),
            ("s3://bucket/1.png", "is an address"),
            ("C:\\photos\\1.png", "is an address"),
            ("./", "is the path of no file"),
            ("half \ud800", "is the path of no file"),
            ("a\0b", "that of a file is expected"),
            ("", "that of a file is expected"),
        ],
    )
    def test_elsewhere(self, root: Path, path: str, message: str) -> None:
        row = json.dumps({"path": path})
        source = manifest(root, '{"path": "3.png"}\n' + row, "list.jsonl")
        assert [(given.name, given.size is None) for given in source.inputs()] == [
            ("3.png", False),
            ("list.jsonl:2", True),
        ]
        with pytest.raises(FormatError, match=rf"list\.jsonl, line 2: .*{message}"):
            samples(source, 1)
        with pytest.raises(FormatError, match=rf"list\.jsonl, line 1: .*{message}"):
            manifest(root, f"{row}\n{row}\n", "list.jsonl")

    @pytest.mark.parametrize(("link", "target"), [("out", ".."), ("out/secret.png", "../../secret.png")])
    def test_by_a_link(self, tmp_path: Path, link: str, target: str) -> None:
        photos.write(tmp_path, "secret.png", "photos/1.png")
        root = tmp_path / "photos"
        (root / link).parent.mkdir(exist_ok=True)
        (root / link).symlink_to(target)
        source = manifest(root, "path\n1.png\nout/secret.png\n")
        assert [given.size is not None for given in source.inputs()] == [True, False]
        with pytest.raises(FormatError, match=r"^out/secret\.png: it.* by a link to .*outside|is a link to .*outside"):
            samples(source, 1)

    @pytest.mark.parametrize(("link", "target"), [("out", ".."), ("out/secret.png", "../../secret.png")])
    def test_by_a_link_that_is_allowed(self, tmp_path: Path, link: str, target: str) -> None:
        photos.write(tmp_path, "secret.png", "photos/1.png")
        root = tmp_path / "photos"
        (root / link).parent.mkdir(exist_ok=True)
        (root / link).symlink_to(target)
        (root / "list.csv").write_text("path\n1.png\nout/secret.png\n")
        source = find(root / "list.csv", options=SourceOptions(follow_links=True))
        assert [given.size is not None for given in source.inputs()] == [True, True]
        assert samples(source) == [{"path": "1.png"}, {"path": "out/secret.png"}]

    @pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd"])
    def test_paths_that_lead_out_are_refused_all_the_same(self, root: Path, path: str) -> None:
        (root / "list.csv").write_text(f"path\n{path}\n")
        with pytest.raises(FormatError, match=r"list\.csv, line 2"):
            find(root / "list.csv", options=SourceOptions(follow_links=True))

    def test_absolute_ones_if_they_are_allowed(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "photos/1.png", "elsewhere/2.png")
        (tmp_path / "elsewhere" / "link.png").symlink_to("2.png")
        root, away = tmp_path / "photos", f"{tmp_path}/elsewhere"
        paths = ["1.png", f"{away}/2.png", f"{away}/./link.png", f"{away}/missing.png", f"{away[1:]}/2.png"]
        (root / "list.csv").write_text("path\n" + "\n".join(paths))
        source = find(root / "list.csv", options=SourceOptions(absolute_paths=True))
        inputs = list(source.inputs())
        relative = [path.lstrip("/").replace("/./", "/") for path in paths[:4]]
        assert [given.name for given in inputs] == [*relative, f"{away[1:]}/2.png#4"]
        assert [given.size is not None for given in inputs] == [True, True, True, False, False]
        reader = pickle.loads(pickle.dumps(source.reader()))
        found = [reader(given.handle) for given in inputs[:3]]
        assert [sample["path"] for sample in found] == [paths[0], paths[1], f"{away}/link.png"]
        assert np.array_equal(found[2]["image"].permute(1, 2, 0), photos.pixels(1))
        for path in ("~/1.png", "/a/../b", "//", "../1.png", "C:\\1.png"):
            (root / "list.csv").write_text(f"path\n{path}\n")
            with pytest.raises(FormatError, match=r"list\.csv, line 2"):
                find(root / "list.csv", options=SourceOptions(absolute_paths=True))

    def test_a_link_within_the_folder_is_a_file(self, root: Path) -> None:
        (root / "4.png").symlink_to("3.png")
        (only,) = manifest(root, "path\n4.png\n").inputs()
        assert only.size == (root / "3.png").stat().st_size

    def test_links_in_circles_are_missing_files(self, root: Path) -> None:
        (root / "a.png").symlink_to("a.png")
        (only,) = manifest(root, "path\na.png\n").inputs()
        assert only.size is None

    @given(st.text(max_size=30))
    def test_whatever_is_taken_stays_below(self, path: str) -> None:
        try:
            taken = checked_path(path)
        except FormatError:
            return
        place = os.path.normpath(os.path.join("/folder/of/it", taken))  # noqa: PTH118 - of text
        assert place.startswith("/folder/of/it/")
        assert place == f"/folder/of/it/{taken}"


class TestRecognition:
    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\xfe\x00", b"name,label\na,b\n", b"[1, 2]\n", b"{}", b"path" + b" " * 70_000, b"just\npath\n\0"],
    )
    def test_other_files_are_no_manifests(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "list.csv").write_bytes(content)
        with pytest.raises(UsageError, match="is of no kind"):
            find(tmp_path / "list.csv")
        with pytest.raises(FormatError, match=r"list\.csv is no manifest"):
            find(tmp_path / "list.csv", "manifest")

    @pytest.mark.parametrize("kind", [None, "manifest"])
    @pytest.mark.parametrize("marked", [True, False])
    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
    @pytest.mark.parametrize("name", ["list.csv", "list.jsonl"])
    def test_another_encoding_is_named(
        self, tmp_path: Path, kind: str | None, marked: bool, encoding: str, name: str
    ) -> None:
        text = "path,label\r\n1.png,cat\r\n" if name == "list.csv" else '{"path": "1.png"}\n'
        (tmp_path / name).write_bytes((("\ufeff" if marked else "") + text).encode(encoding))
        what = f"{encoding[:6].upper()} text .it begins with the byte order mark" if marked else encoding.upper()
        with pytest.raises(FormatError, match=rf"{name} is no manifest that can be read: it is {what}") as caught:
            find(tmp_path / name, kind)
        command = str(caught.value).partition("convert it: ")[2].split()
        assert command[:2] == ["iconv", "-f"]
        converted = (tmp_path / name).read_bytes().decode(command[2])
        assert converted.encode(command[4]).decode() == text

    def test_bytes_of_utf_16_behind_the_header_are_named(self, root: Path) -> None:
        with pytest.raises(FormatError, match=r"list\.csv, line 2: it has NUL bytes, as text in UTF-16 has"):
            manifest(root, b"path,label\n" + "3.png,cat\n".encode("utf-16-le"))

    def test_a_folder_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is no file, and a manifest is one"):
            find(tmp_path, "manifest")

    @given(st.binary(max_size=80), st.integers(0, 40), st.sampled_from(["list.csv", "list.jsonl"]))
    def test_damaged_manifests_raise_nothing_else(self, junk: bytes, at: int, name: str) -> None:
        text = b'path,label,note\n3.png,a,"x"\n' if name == "list.csv" else b'{"path": "3.png", "label": 1}\n' * 2
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(text[:at] + junk + text[at:])
            try:
                source = find(path, "manifest")
                assert source.count == len(list(source.inputs()))
            except (FormatError, UsageError):
                pass
