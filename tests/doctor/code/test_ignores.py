"""Silencing findings: comments on statements, a table in pyproject.toml, and what is wrong with either is told."""

from pathlib import Path

import pytest

from cordwood.doctor.code.ignores import Ignores, ignored_on_the_line, mistakes_in
from cordwood.doctor.evidence.findings import CodeLine, Finding


def place_in(folder: Path, source: str, marker: str) -> CodeLine:
    file = folder / "train.py"
    file.write_text(source, encoding="utf-8")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if marker in text)
    return CodeLine(str(file), line)


@pytest.mark.parametrize(
    ("comment", "ids"),
    [
        ("# cordwood: ignore[graph-leak]", {"graph-leak"}),
        ("#cordwood:ignore[graph-leak,hidden-sync]", {"graph-leak", "hidden-sync"}),
        ("# noqa: X1 # cordwood: ignore[ graph-leak , hidden-sync ]  because", {"graph-leak", "hidden-sync"}),
        ("# cordwood: ignore[a] # cordwood: ignore[b]", {"a", "b"}),
        ("# cordwood: ignore", set()),
        ("# ignore[graph-leak]", set()),
        ("", set()),
    ],
)
def test_comments_name_rules(comment: str, ids: set[str], tmp_path: Path) -> None:
    place = place_in(tmp_path, f"total = 0\ntotal += 1  {comment}\nother = 1\n", "total += 1")
    assert ignored_on_the_line(place) == ids
    assert ignored_on_the_line(CodeLine(place.file, 3)) == set()


def test_the_comment_may_be_on_any_line_of_the_statement(tmp_path: Path) -> None:
    source = "def f():\n    losses.append(\n        loss\n    )  # cordwood: ignore[graph-leak]\n    other()\n"
    place = place_in(tmp_path, source, "losses.append")
    assert ignored_on_the_line(place) == {"graph-leak"}
    assert ignored_on_the_line(CodeLine(place.file, 3)) == {"graph-leak"}
    assert ignored_on_the_line(CodeLine(place.file, 5)) == set()


def test_a_block_is_silenced_at_its_head_and_not_by_its_body(tmp_path: Path) -> None:
    source = "for batch in loader:  # cordwood: ignore[workers]\n    step(batch)  # cordwood: ignore[hidden-sync]\n"
    place = place_in(tmp_path, source, "for batch")
    assert ignored_on_the_line(place) == {"workers"}
    assert ignored_on_the_line(CodeLine(place.file, 2)) == {"hidden-sync"}


def test_a_text_that_looks_like_a_comment_is_none(tmp_path: Path) -> None:
    place = place_in(tmp_path, 'print("# cordwood: ignore[hidden-sync]")\n', "print")
    assert ignored_on_the_line(place) == set()


def test_a_file_that_is_no_python_or_not_there_silences_nothing(tmp_path: Path) -> None:
    place = place_in(tmp_path, "def (:  # cordwood: ignore[workers]\n  '''", "def")
    assert ignored_on_the_line(place) <= {"workers"}
    assert ignored_on_the_line(CodeLine(str(tmp_path / "gone.py"), 7)) == set()


def write(folder: Path, table: str) -> Path:
    (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    script = folder / "src" / "deep" / "train.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.touch()
    return script


def test_the_table_silences_rules_everywhere_or_in_some_files(tmp_path: Path) -> None:
    script = write(tmp_path, '[tool.cordwood.doctor]\nignore = ["workers", "hidden-sync:src/*.py"]\n')
    ignores = Ignores.near(script, {"workers", "hidden-sync"})
    assert ignores.notes == ()
    assert ignores.why_silenced(Finding("workers", "m", "f")) is not None
    assert ignores.why_silenced(Finding("graph-leak", "m", "f")) is None
    assert ignores.why_silenced(Finding("hidden-sync", "m", "f", CodeLine(str(script), 1))) is not None
    assert ignores.why_silenced(Finding("hidden-sync", "m", "f", CodeLine(str(tmp_path / "train.py"), 1))) is None
    assert ignores.why_silenced(Finding("hidden-sync", "m", "f")) is None


def test_only_the_nearest_file_counts(tmp_path: Path) -> None:
    script = write(tmp_path, '[tool.cordwood.doctor]\nignore = ["workers"]\n')
    (script.parent / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert Ignores.near(script).why_silenced(Finding("workers", "m", "f")) is None


def test_without_a_script_the_current_folder_is_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[tool.cordwood.doctor]\nignore = ["workers"]\n')
    monkeypatch.chdir(tmp_path / "src")
    assert Ignores.near(None).entries == (("workers", None),)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[tool.cordwood.doctor\n", "could not be read"),
        ("\x00", "could not be read"),
        ("tool = 3\n", "no table"),
        ("[tool]\ncordwood = [1]\n", "no table"),
        ("[tool.cordwood.doctor]\nignore = 'workers'\n", "a list is expected"),
        ("[tool.cordwood.doctor]\nignore = [3]\n", "names no rule"),
        (
            "[tool.cordwood.doctor]\nignore = ['worker']\n",
            "'worker' in `ignore` names no rule; did you mean 'workers'?",
        ),
        ("[tool.cordwood.doctor]\nignored = ['workers']\n", "there is no key 'ignored'; did you mean 'ignore'?"),
    ],
)
def test_a_wrong_configuration_is_told_of_and_breaks_nothing(table: str, told: str, tmp_path: Path) -> None:
    ignores = Ignores.near(write(tmp_path, table), {"workers"})
    assert ignores.entries == ()
    (note,) = ignores.notes
    assert told in note


def test_comments_that_silence_nothing_are_told_of(tmp_path: Path) -> None:
    source = (
        "total += loss  # cordwood: ignore[grph-leak, workers]\n"
        "print(loss)  # cordwood: ignore\n"
        "print(loss)  # cordwood: ignore [workers]\n"
        "print('# cordwood: ignore')  # cordwood: ignore[graph-leak] and not to ignore\n"
    )
    file = place_in(tmp_path, source, "total").file
    known = {"graph-leak", "workers"}
    typo, *bare = mistakes_in([file, file, str(tmp_path / "gone.py"), "\0"], known)
    assert typo == f"{file}:1: 'grph-leak' in `# cordwood: ignore[...]` names no rule; did you mean 'graph-leak'?"
    assert bare == [
        f"{file}:{n}: `# cordwood: ignore` silences nothing without a rule: ignore[rule-id]" for n in (2, 3)
    ]


def test_many_such_comments_are_counted(tmp_path: Path) -> None:
    file = place_in(tmp_path, "work()  # cordwood: ignore\n" * 9, "work").file
    *_, last = notes = mistakes_in([file], {"workers"})
    assert (len(notes), last) == (6, "4 more comments silence nothing")
