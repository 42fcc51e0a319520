"""Saves in the background: the bytes of the moment of the call, in order, and no failure that nobody hears of."""

import gc
import io
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.tensors.saving import background
from cordwood.tensors.saving.background import wait_for_turn
from cordwood.tensors.saving.save import Target
from tests.tensors.support.objects import CATALOGUE, QUIET, as_loaded, floats
from tests.tensors.support.same import assert_same, assert_shares_alike

pytestmark = QUIET

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("x.pt", {}),
    ("x.pt", {"compress": True}),
    ("x.pt", {"format": "pt-legacy"}),
    ("x.pt.zip", {}),
    ("x.cord", {}),
    ("x.cord", {"goal": "raw"}),
]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Nothing is written in the background before it is opened."""
    opened = threading.Event()
    held = background.run_in_turn("gate", "gate", opened.wait)
    yield opened
    opened.set()
    held.result(60)


@pytest.mark.parametrize(("name", "options"), FORMS, ids=str)
def test_the_bytes_are_those_of_the_call(
    name: str, options: dict[str, Any], gate: threading.Event, tmp_path: Path
) -> None:
    base = floats(40, 30)
    obj = {"columns": base[:, 3:7], "row": base[5], "whole": torch.ones(1000), "epoch": [1]}
    before = {"columns": base[:, 3:7].clone(), "row": base[5].clone(), "whole": torch.ones(1000), "epoch": [1]}
    saving = cw.save(obj, tmp_path / name, background=True, **options)
    assert saving is not None
    base.zero_()
    obj["whole"].fill_(-1)  # type: ignore[attr-defined]
    obj["epoch"].append(2)  # type: ignore[attr-defined]
    del obj["row"]
    assert not saving.done()
    assert not (tmp_path / name).exists()
    gate.set()
    assert saving.result(60) is None
    assert saving.done()
    loaded = cw.load(tmp_path / name)
    assert_same(before, loaded, strides=False)
    assert loaded["columns"].untyped_storage()._cdata == loaded["row"].untyped_storage()._cdata


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_everything_in_the_catalogue(name: str, tmp_path: Path) -> None:
    case = CATALOGUE[name]
    obj = case.make()
    for file, options in FORMS:
        saving = cw.save(obj, tmp_path / file, background=True, **options)
        assert saving is not None
        saving.result(60)
        loaded = cw.load(tmp_path / file, weights_only=False)
        assert_same(as_loaded(obj), loaded, strides=False)
        assert_shares_alike(obj, loaded)


def test_the_object_may_go_at_once(gate: threading.Event, tmp_path: Path) -> None:
    saving = cw.save([floats(1000), floats(50, 50)[:, 2:4]], tmp_path / "x.pt", background=True)
    gc.collect()
    rubbish = [torch.full((1000,), float(number)) for number in range(50)]
    gate.set()
    assert saving is not None
    saving.result(60)
    assert_same([floats(1000), floats(50, 50)[:, 2:4].contiguous()], torch.load(tmp_path / "x.pt"))
    del rubbish


def test_errors_come_with_the_result(gate: threading.Event, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    saving = cw.save(floats(3), tmp_path / "folder" / "x.pt", background=True)
    (tmp_path / "folder").rmdir()
    gate.set()
    assert saving is not None
    with pytest.raises(cw.StorageError, match="nothing was written"):
        saving.result(60)
    assert saving.done()
    assert isinstance(saving.exception(), cw.StorageError)
    assert "failed" in repr(saving)


def test_what_is_wrong_with_the_call_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError):
        cw.save(floats(3), tmp_path / "x.cord", compress=True, background=True)
    with pytest.raises((AttributeError, TypeError, Exception), match=r"[Pp]ickle"):
        cw.save(lambda: None, tmp_path / "x.pt", background=True)
    assert list(tmp_path.iterdir()) == []


def test_durable_to_a_file_object_is_said_at_once() -> None:
    with pytest.raises(cw.UsageError, match="durable=True needs a path"):
        cw.save(floats(3), io.BytesIO(), durable=True, background=True)


@pytest.mark.parametrize("before_the_end", [True, False])
def test_a_failure_that_nobody_asks_about_warns(before_the_end: bool, gate: threading.Event, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    saving = cw.save(floats(3), tmp_path / "folder" / "x.pt", background=True)
    (tmp_path / "folder").rmdir()
    last = background.run_in_turn("last", "last", lambda: None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if before_the_end:
            del saving
            gate.set()
            last.result(60)
        else:
            gate.set()
            last.result(60)
            del saving
    (warning,) = [each for each in said if "background save" in str(each.message)]
    assert warning.category is RuntimeWarning
    assert "x.pt failed" in str(warning.message)


def test_a_failure_that_was_asked_about_does_not_warn(gate: threading.Event, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    saving = cw.save(floats(3), tmp_path / "folder" / "x.pt", background=True)
    (tmp_path / "folder").rmdir()
    gate.set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert saving is not None
        assert saving.exception(60) is not None
        del saving


def test_waiting_has_a_limit(gate: threading.Event, tmp_path: Path) -> None:
    saving = cw.save(floats(3), tmp_path / "x.pt", background=True)
    assert saving is not None
    with pytest.raises(TimeoutError):
        saving.result(0)
    assert "under way" in repr(saving)
    gate.set()
    saving.result(60)
    assert "done" in repr(saving)
    assert str(tmp_path / "x.pt") in repr(saving)


def test_saves_to_one_path_happen_in_order(gate: threading.Event, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    savings = [cw.save(torch.full((10,), float(number)), path, background=True) for number in range(5)]
    gate.set()
    for saving in savings:
        assert saving is not None
        saving.result(60)
    assert torch.equal(torch.load(path), torch.full((10,), 4.0))
    assert list(tmp_path.iterdir()) == [path]


def test_a_plain_save_waits_for_its_turn(
    gate: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x.pt")
    first = cw.save(torch.zeros(10), tmp_path / "x.pt", background=True)
    assert first is not None
    written = []

    def writes(target: Target, *arguments: Any) -> None:
        written.append((target.name, first.done()))
        write(target, *arguments)

    write = Target.write
    monkeypatch.setattr(Target, "write", writes)
    cw.save(torch.ones(1), tmp_path / "y.pt")  # which need not wait
    opener = threading.Thread(target=gate.set)

    def waits(identity: Callable[[], str]) -> None:
        opener.start()
        wait_for_turn(identity)

    monkeypatch.setattr("cordwood.tensors.saving.save.wait_for_turn", waits)
    cw.save(torch.ones(10), tmp_path / "link")
    opener.join(60)
    assert (str(tmp_path / "y.pt"), False) in written
    assert (str(tmp_path / "link"), True) in written
    assert torch.equal(torch.load(tmp_path / "x.pt"), torch.ones(10))


def test_a_failed_save_does_not_stop_the_next(gate: threading.Event, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    lost = cw.save(floats(3), tmp_path / "folder" / "x.pt", background=True)
    (tmp_path / "folder").rmdir()
    kept = cw.save(floats(3), tmp_path / "x.pt", background=True)
    gate.set()
    assert kept is not None
    kept.result(60)
    assert lost is not None
    assert lost.exception(60) is not None
    cw.save(floats(3), tmp_path / "x.pt")


def test_into_a_file_object(gate: threading.Event) -> None:
    file = io.BytesIO()
    saving = cw.save(floats(9)[2:5], file, background=True)
    gate.set()
    assert saving is not None
    saving.result(60)
    assert torch.equal(torch.load(io.BytesIO(file.getvalue())), floats(9)[2:5])


HEAD = """
import os, sys, threading
from pathlib import Path
import torch
import cordwood as cw
folder = Path(sys.argv[1])
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HEAD + script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_the_interpreter_waits_for_it_at_its_end(tmp_path: Path) -> None:
    script = """
obj = {"a": torch.arange(600_000) % 100, "b": torch.zeros(700_000)}
for number, (name, options) in enumerate({}):
    cw.save(obj, folder / f"{number}{name}", background=True, **options)
"""
    done = run(script.replace("{}", repr(FORMS), 1), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    files = [tmp_path / f"{number}{name}" for number, (name, _) in enumerate(FORMS)]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    for file in files:
        loaded = cw.load(file)
        assert torch.equal(loaded["a"], torch.arange(600_000) % 100)
        assert torch.equal(loaded["b"], torch.zeros(700_000))


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["", "saving = ", "import builtins; builtins.kept = "])
def test_a_failure_at_the_end_is_told(keep: str, tmp_path: Path) -> None:
    script = """
(folder / "gone").mkdir()
gate = threading.Event()
from cordwood.tensors.saving import background
background.run_in_turn("gate", "gate", gate.wait)
{}cw.save(torch.ones(3), folder / "gone" / "x.pt", background=True)
(folder / "gone").rmdir()
gate.set()
"""
    done = run(script.replace("{}", keep), tmp_path)
    assert done.stderr.count("RuntimeWarning: the background save to") == 1
    assert "x.pt failed" in done.stderr


@pytest.mark.slow
def test_a_forked_process_saves_for_itself(tmp_path: Path) -> None:
    script = """
gate = threading.Event()
from cordwood.tensors.saving import background
background.run_in_turn("gate", "gate", gate.wait)
first = cw.save(torch.zeros(10), folder / "parent.pt", background=True)
child = os.fork()
if not child:
    cw.save(torch.ones(10), folder / "child.pt", background=True).result(60)
    cw.save(torch.ones(10), folder / "plain.pt")
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert not first.done()
gate.set()
first.result(60)
"""
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert torch.equal(torch.load(tmp_path / "parent.pt"), torch.zeros(10))
    assert torch.equal(torch.load(tmp_path / "child.pt"), torch.ones(10))
    assert torch.equal(torch.load(tmp_path / "plain.pt"), torch.ones(10))


@pytest.mark.slow
def test_a_forked_process_does_not_wait_for_the_save_of_its_parent(tmp_path: Path) -> None:
    script = """
gate = threading.Event()
from cordwood.tensors.saving import background
background.run_in_turn("gate", "gate", gate.wait)
saving = cw.save(torch.zeros(10), folder / "x.pt", background=True)
child = os.fork()
if not child:
    try:
        saving.result()
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
        os._exit(0)
    os._exit(1)
_, status = os.waitpid(child, 0)
gate.set()
assert status == 0, status
"""
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "process" in done.stdout


_AT_THE_END = {
    "atexit": "atexit.register(work)",
    "last thread": "threading.Thread(target=lambda: (threading.main_thread().join(), work())).start()",
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("place", _AT_THE_END)
@pytest.mark.parametrize(
    ("name", "options"),
    [("x.pt", {}), ("x.pt", {"compress": True}), ("x.pt", {"background": True}), ("x.cord", {"background": True})],
    ids=str,
)
def test_saving_while_the_interpreter_ends(
    name: str, options: dict[str, Any], place: str, first: bool, tmp_path: Path
) -> None:
    """No thread can be started then, and nothing may be lost for that."""
    script = f"""
import atexit, sys, threading
import torch
import cordwood as cw
state = {{str(number): torch.full((1_000_000,), float(number)) for number in range(3)}}
def work():
    cw.save(state, sys.argv[1], **{options})
    assert cw.load(sys.argv[1], mmap=False)["2"][-1] == 2
{"" if first else "cw.save(1, sys.argv[1])"}
{_AT_THE_END[place]}
"""
    ended = subprocess.run([sys.executable, "-c", script, tmp_path / name], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert torch.equal(cw.load(tmp_path / name)["1"], torch.ones(1_000_000))


@pytest.mark.parametrize("place", _AT_THE_END)
def test_a_failure_while_the_interpreter_ends_is_told(place: str, tmp_path: Path) -> None:
    script = f"""
import atexit, sys, threading
import torch
import cordwood as cw
def work():
    cw.save(torch.ones(3), sys.argv[1], background=True)
{_AT_THE_END[place]}
"""
    path = tmp_path / "no folder" / "x.pt"
    ended = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert "x.pt failed" in ended.stderr
