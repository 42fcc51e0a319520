"""Scripts run as Python runs them: arguments, paths, names, exits, exceptions, processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cordwood as cw
from cordwood import doctor
from cordwood.doctor.run.script import DoctorOptions, run_script
from tests.doctor.support.runs import run_preloaded

TRAINS = """
import torch
from torch import nn

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
"""

DOCTOR = ["-m", "cordwood", "doctor", "--seconds", "0", "--json", "r.json"]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """Scripts that run in this process set torch's threads: what they were is set again."""
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "train.py") -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def seen(script: str, *arguments: str, module: bool = False) -> dict[str, object]:
    """What the script writes of itself to seen.json; the process is as before afterwards."""
    before = list(sys.argv), list(sys.path), sys.modules["__main__"]
    code, _ = run_script(script, list(arguments), DoctorOptions(seconds=0.0), module=module)
    assert code == 0
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    found: dict[str, object] = json.loads(Path("seen.json").read_text(encoding="utf-8"))
    return found


TELLS = """
import json, pathlib, pickle, sys
class Thing:
    pass
pickle.dumps(Thing())
if __name__ == "__main__":
    import neighbour
    pathlib.Path("seen.json").write_text(json.dumps({
        "argv": sys.argv, "file": __file__, "package": __package__, "path": sys.path[0],
        "main": sys.modules["__main__"].Thing is Thing,
    }))
"""


def test_a_script_finds_itself_as_python_would_have_it() -> None:
    written("", "folder/neighbour.py")
    script = written(TELLS, "folder/train.py")
    here = seen(script, "--epochs", "1", "-x")
    subprocess.run([sys.executable, script, "--epochs", "1", "-x"], check=True)
    assert here == json.loads(Path("seen.json").read_text(encoding="utf-8"))


def test_a_module_finds_itself_as_python_would_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written("", "pkgofours/__init__.py")
    written("", "neighbour.py")
    written(TELLS, "pkgofours/train.py")
    here = seen("pkgofours.train", "--json", "x", module=True)
    subprocess.run([sys.executable, "-m", "pkgofours.train", "--json", "x"], check=True)
    assert here == json.loads(Path("seen.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('no data')", 1),
        ("raise KeyboardInterrupt", 130),
        ("1 / 0", 1),
    ],
)
def test_the_scripts_own_exit_code_is_kept_and_the_report_comes_all_the_same(
    ending: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found, report = run_script(written(f"{TRAINS}\nmain()\n{ending}\n"), [], DoctorOptions(seconds=0.0))
    assert found == code
    assert report is not None
    assert report.document["steps"]["count"] == 20
    errors = capsys.readouterr().err
    assert ("no data" in errors) == ("no data" in ending)
    if "1 / 0" in ending:
        assert "ZeroDivisionError" in errors
        assert "doctor/run/script.py" not in errors
        assert 'train.py", line' in errors


FORKS = (
    TRAINS
    + """
main()
import os, sys
child = os.fork()
if not child:
    print("the child", flush=True)
    sys.exit(7)
main()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
)


@pytest.mark.slow
def test_a_child_that_the_script_forks_has_no_report_of_its_own(tmp_path: Path) -> None:
    done = run_preloaded([*DOCTOR, written(FORKS)], tmp_path)
    assert done.code == 7, done.errors
    assert done.output.count("the child") == 1
    assert done.errors.count("the report as JSON is in") == 1
    assert cw.Report.load("r.json").document["steps"]["count"] >= 39  # of 40: where the first ones begin is not seen


def test_a_traceback_has_no_frames_of_the_doctor(capfd: pytest.CaptureFixture[str]) -> None:
    script = written("import torch\ntorch.nn.Sequential(torch.nn.Linear(4, 2))(torch.ones(3, 3))\n")
    code, _ = run_script(script, [], DoctorOptions(seconds=0.0))
    errors = capfd.readouterr().err
    assert code == 1
    assert "train.py" in errors
    assert str(Path(doctor.__file__).parent) not in errors


def test_the_scripts_own_hook_for_exceptions_is_called(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    hooked = "import sys\nsys.excepthook = lambda kind, error, trace: print('HOOK', error, trace.tb_lineno)\n"
    code, _ = run_script(written(hooked + "raise RuntimeError('boom')"), [], DoctorOptions(seconds=0.0))
    told = capfd.readouterr()
    assert (code, told.out) == (1, "HOOK boom 3\n")
    assert "Traceback" not in told.err
    broken = hooked.replace("print(", "nowhere(")
    code, _ = run_script(written(broken + "raise RuntimeError('boom')"), [], DoctorOptions(seconds=0.0))
    told = capfd.readouterr()
    assert code == 1
    assert "Error in sys.excepthook:" in told.err
    assert "Original exception was:" in told.err
    assert "RuntimeError: boom" in told.err


def test_builtins_and_the_loader_are_those_of_a_script() -> None:
    tells = "import json, pathlib\nfound = {'builtins': __builtins__.__name__, 'loader': type(__loader__).__name__}\n"
    found = seen(written(tells + "pathlib.Path('seen.json').write_text(json.dumps(found))"))
    assert found == {"builtins": "builtins", "loader": "SourceFileLoader"}


def test_a_thread_that_is_left_to_train_is_waited_for() -> None:
    script = written(f"{TRAINS}\nimport threading\nthreading.Thread(target=main).start()\n")
    _, report = run_script(script, [], DoctorOptions(seconds=0.0))
    assert report is not None
    assert report.document["steps"]["count"] > 10


def test_a_script_that_trains_nothing_is_told_so() -> None:
    _, report = run_script(written("print('hello')"), [], DoctorOptions(seconds=0.0))
    assert report is not None
    assert report.exit_code == 0
    assert "no optimizer" in str(report)


@pytest.mark.parametrize(
    ("target", "module", "message"),
    [
        ("missing.py", False, "is no file"),
        ("broken.py", False, "line 1"),
        ("no.such.module", True, "no"),
        ("..x", True, "-m"),
    ],
)
def test_what_cannot_be_run_is_refused(target: str, module: bool, message: str) -> None:
    written("def :", "broken.py")
    with pytest.raises(cw.UsageError, match=message):
        run_script(target, [], module=module)


SPAWNS = """
from datetime import timedelta
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def work(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(seconds=120))
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(loss.item().hex(), flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[1],), nprocs=2, start_method=sys.argv[2])
"""


def free_port() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
def test_ranks_that_a_script_forks_are_watched(tmp_path: Path) -> None:
    script, method = written(SPAWNS), "fork"  # those that it spawns are among the healthy scripts
    bare = run_preloaded([script, free_port(), method], tmp_path)
    watched = run_preloaded([*DOCTOR, script, free_port(), method], tmp_path)
    assert watched.output == bare.output != "", watched.errors
    document = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert document["steps"]["count"] == 20
    assert (document["environment"]["rank"], document["environment"]["world_size"]) == (0, 2)
    assert any(note.startswith("rank 1:") for note in document["notes"])
    assert watched.code == 0


@pytest.mark.slow
def test_processes_that_serve_are_left_alone(tmp_path: Path) -> None:
    script = written(
        f"{TRAINS}\n"
        "import multiprocessing\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
        "    main()\n"
    )
    done = run_preloaded([*DOCTOR, script], tmp_path)
    assert done.output == "[2, 4]\n", done.errors
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["steps"]["count"] == 20


def test_a_folder_that_cannot_be_made_does_not_stop_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: object, **options: object) -> str:
        raise OSError("no space left")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    code, report = run_script(written(f"{TRAINS}\nmain()\nimport sys; sys.exit(4)"), [], DoctorOptions(seconds=0.0))
    assert (code, report) == (4, None)
    errors = capsys.readouterr().err
    assert "no space left" in errors
    assert "the script runs without it" in errors


def test_a_report_that_cannot_be_made_keeps_the_scripts_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr("cordwood.doctor.report.report.build_report", broken)
    code, report = run_script(written(f"{TRAINS}\nmain()\nimport sys; sys.exit(4)"), [], DoctorOptions(seconds=0.0))
    assert (code, report) == (4, None)
    assert "the report could not be made: KeyError" in capsys.readouterr().err


def test_programs_that_are_not_watched_are_told_of() -> None:
    script = written("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''], check=True)")
    _, report = run_script(script, [], DoctorOptions(seconds=0.0))
    assert report is not None
    assert any("torchrun" in note for note in report.document["notes"])


def test_what_killed_processes_left_is_swept(tmp_path: Path) -> None:
    from cordwood.doctor.run.temp_folder import sweep

    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left, own, other = (
        tmp_path / f"cordwood-doctor-{done.pid}-x",
        tmp_path / f"cordwood-doctor-{os.getpid()}-x",
        tmp_path / "cordwood-doctor-notes",
    )
    for folder in (left, own, other):
        folder.mkdir()
    sweep(tmp_path)
    assert [folder.exists() for folder in (left, own, other)] == [False, True, True]


TORCHRUN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_of_torchrun_write_a_file_each() -> None:
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), "-m", "cordwood"]
    done = subprocess.run(
        [sys.executable, *words, "doctor", "--seconds", "0", "--json", "r.json", written(TORCHRUN)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    ranks = [json.loads(Path(name).read_text(encoding="utf-8"))["environment"]["rank"] for name in RANKS]
    assert ranks == [0, 1]
    assert done.stderr.count("doctor: ") == 1


RANKS = ("r.json", "r.rank1.json")
