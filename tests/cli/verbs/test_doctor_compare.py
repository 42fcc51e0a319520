"""``cordwood doctor compare``: what is told of two reports, exit codes, and what is refused."""

from pathlib import Path

import pytest

from cordwood import cli
from tests.doctor.support.evidences import make_evidence, make_report

Output = pytest.CaptureFixture[str]


def saved(path: Path, **phases: float) -> str:
    make_report(evidence=make_evidence(**phases)).save(path)  # type: ignore[arg-type]
    return str(path)


def test_compare_says_whether_it_got_better(tmp_path: Path, capsys: Output) -> None:
    slow = saved(tmp_path / "slow.json", wait=40.0, forward=20.0)
    fast = saved(tmp_path / "fast.json", wait=1.0, forward=20.0)
    assert cli.main(["doctor", "compare", slow, fast]) == 0
    assert capsys.readouterr().out.startswith("faster: ")
    assert cli.main(["doctor", "compare", fast, slow]) == 1
    assert capsys.readouterr().out.startswith("slower: ")
    assert cli.main(["doctor", "compare", fast, fast]) == 0


def test_compare_tells_its_use(capsys: Output) -> None:
    assert cli.main(["doctor", "compare", "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: cordwood doctor compare [options] before.json after.json\n")
    assert "the report of the earlier run" in told
    assert "1 if training got slower" in told
    assert "--steps" not in told


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schema_version": 99}', b"\xff"])
def test_compare_refuses_what_is_no_report(data: bytes, tmp_path: Path, capsys: Output) -> None:
    good = saved(tmp_path / "good.json", forward=20.0)
    (tmp_path / "bad.json").write_bytes(data)
    assert cli.main(["doctor", "compare", good, str(tmp_path / "bad.json")]) == 3
    assert "bad.json is no report" in capsys.readouterr().err


def test_compare_tells_of_a_file_that_is_not_there(tmp_path: Path, capsys: Output) -> None:
    good = saved(tmp_path / "good.json", forward=20.0)
    assert cli.main(["doctor", "compare", str(tmp_path / "god.json"), good]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"cordwood: there is no report {tmp_path / 'god.json'}: cordwood doctor --json ")
    assert err.endswith(f"did you mean {good!r}?\n")
    assert cli.main(["doctor", "compare", str(tmp_path), good]) == 3
    assert capsys.readouterr().err == f"cordwood: {tmp_path}: Is a directory: the report cannot be read\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "compare takes two reports"),
        (["a.json"], "compare takes two reports"),
        (["a.json", "b.json", "c.json"], "compare takes two reports"),
        (["--json", "a.json", "b.json"], "compare has no option --json"),
    ],
)
def test_compare_refuses_wrong_use(words: list[str], told: str, capsys: Output) -> None:
    assert cli.main(["doctor", "compare", *words]) == 2
    assert told in capsys.readouterr().err
