"""A store whose packing was stopped can be read, and everybody who reads it is told that samples are missing."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood import cli
from cordwood.store.format.unfinished import unfinished
from tests.packing.support.numbers import Numbers, pack

SO_FAR = "packing is not finished"


class Stop(Exception):  # noqa: N818 - no error
    """Stops a job from its progress."""


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    def stop(state: Any) -> None:
        if state.inputs >= 900:
            raise Stop

    with pytest.raises(Stop):
        pack(Numbers(1000), tmp_path / "s.cordwood", shard_bytes=600, progress=stop)
    return tmp_path / "s.cordwood"


def test_opening_warns_at_the_callers_line(stopped: Path) -> None:
    with pytest.warns(UserWarning, match=rf"s\.cordwood has \d+ samples so far: {SO_FAR}") as told:
        ds = cw.open(stopped)
    assert [one.filename for one in told] == [__file__]
    assert 0 < len(ds) < 1000
    pack(Numbers(1000), stopped, shard_bytes=600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(cw.open(stopped)) == 1000


def test_inspection_and_verification_say_so(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(stopped)]) == 0
    assert SO_FAR in capsys.readouterr().out
    assert SO_FAR in cw.inspect(stopped)._repr_html_()
    assert cli.main(["verify", str(stopped)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[0].endswith(": good so far, but not finished")
    assert SO_FAR in out
    assert cli.main(["verify", str(stopped), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"]
    assert document["unfinished"].startswith(SO_FAR)


@pytest.mark.parametrize(
    "job", [b"", b"[]", b"{}", b'{"complete": true}', b'{"complete": 0}', b"\xff", b"[" * 100_000, None]
)
def test_a_job_that_says_nothing_of_the_kind(tmp_path: Path, job: bytes | None) -> None:
    if job is not None:
        (tmp_path / "pack.json").write_bytes(job)
    assert unfinished(tmp_path) is None
