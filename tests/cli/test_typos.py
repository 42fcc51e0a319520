"""Words that the command does not know: it says what may have been meant, where they were typed."""

from pathlib import Path

import pytest

from cordwood import cli


def complaint(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of wrong words; below it stands how to read more."""
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    said, advice = err.splitlines()
    assert advice == f"see {said.partition(': error: ')[0]} --help"
    return said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pakc", "photos/"], "cordwood: error: there is no verb 'pakc'; did you mean 'pack'?"),
        (["INSPECT", "x.pt"], "cordwood: error: there is no verb 'INSPECT'; did you mean 'inspect'?"),
        (["check", "x"], "cordwood: error: there is no verb 'check'; did you mean 'verify'?"),
        (["compare", "a", "b"], "cordwood: error: there is no verb 'compare'; did you mean 'doctor compare'?"),
        (["hlep"], "cordwood: error: there is no verb 'hlep'; did you mean '--help'?"),
        (["--verson"], "cordwood: error: unknown option --verson; did you mean --version?"),
        (
            ["verify", "x", "--slavage", "y"],
            "cordwood verify: error: unknown option --slavage; did you mean --salvage?",
        ),
        (
            ["pack", "x", "y", "--most-errors", "3", "--most-pixels=9"],
            "cordwood pack: error: unknown option --most-errors; did you mean --max-errors? "
            "unknown option --most-pixels; did you mean --max-pixels?",
        ),
        (
            ["merge", "a", "b", "--ouput=x"],
            "cordwood merge: error: unknown option --ouput; did you mean --output?",
        ),
        (["merge", "a", "b", "--out", "x"], "cordwood merge: error: unknown option --out; did you mean --output?"),
        (["demo", "--folder", "x"], "cordwood demo: error: unknown option --folder; did you mean --output?"),
        (["inspect", "--jso"], "cordwood inspect: error: unknown option --jso; did you mean --json?"),
        (
            ["export", "a", "b", "--to", "crod"],
            "cordwood export: error: argument --to: invalid choice: 'crod' (choose from 'pt', 'cord'); "
            "did you mean 'cord'?",
        ),
        (
            ["doctor", "--seconds", "3", "--htlm", "x.html", "train.py"],
            "cordwood doctor: error: unknown option --htlm; did you mean --html?",
        ),
    ],
)
def test_what_may_have_been_meant(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(words, capsys) == said


def test_a_verb_that_is_like_none_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(["burn"], capsys).endswith(f"there is no verb 'burn': there are {', '.join(cli.VERBS)}")


@pytest.mark.parametrize(
    "words",
    [
        ["trim", "x.pt", "--", "--in-plcae"],  # behind "--" nothing is an option
        ["verify", "x", "--qqqqqqq"],
    ],
)
def test_no_hint_for_what_is_like_nothing_or_is_no_option(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] == "trim":
        assert cli.main(words) == 2
        assert "did you mean --" not in capsys.readouterr().err
    else:
        assert "did you mean" not in complaint(words, capsys)


def test_options_of_a_script_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "no-such-script.py", "--stpes", "3"]) == 2
    assert "--steps" not in capsys.readouterr().err


def test_a_missing_file_is_compared_with_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkpoint.pt").write_bytes(b"PK")
    assert cli.main(["inspect", "chekpoint.pt"]) == 2
    assert capsys.readouterr().err == (
        "cordwood: chekpoint.pt: no such file or folder; did you mean 'checkpoint.pt'?\n"
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["doctor", "trian.py"], "train.py"),
        (["doctor", "comapre", "a.json", "b.json"], "compare"),
        (["trim", "chekpoint.pt"], "checkpoint.pt"),  # before it is asked where to
    ],
)
def test_names_of_files(
    words: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("checkpoint.pt", "train.py"):
        Path(name).touch()
    assert cli.main(words) == 2
    assert capsys.readouterr().err.endswith(f"; did you mean '{meant}'?\n")
