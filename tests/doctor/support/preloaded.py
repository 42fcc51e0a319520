"""A process that has imported torch already, and runs scripts in copies of itself: an import takes as long as they do.

    with Preloaded() as python:
        done = python.run(["-m", "cordwood", "doctor", "train.py"], folder)     # or ["train.py"]
        done.code, done.output, done.errors

A copy is forked before torch has done anything, so that what runs in it is as in a new process.
"""

import json
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

THREADS = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


@dataclass(frozen=True)
class Done:
    code: int
    output: str
    errors: str


class Preloaded:
    """The process to ask; one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=Path(__file__).parents[3],
            env=os.environ | THREADS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Preloaded":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, words: list[str], folder: Path) -> Done:
        """What ``python words`` gives in this folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        files = [str(folder / name) for name in (".output", ".errors")]
        print(json.dumps([words, str(folder), *files]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        output, errors = (Path(file).read_text(encoding="utf-8") for file in files)
        return Done(int(answer), output, errors)


def _serve() -> None:
    import torch._dynamo  # imported by the first optimizer

    import cordwood.cli
    import cordwood.doctor.run.script
    import cordwood.doctor.run.session

    assert torch._dynamo
    assert cordwood.doctor.run.script
    for line in sys.stdin:
        words, folder, output, errors = json.loads(line)
        child = os.fork()
        if not child:
            _become(folder, output, errors)
            sys.exit(_run(words))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(folder: str, output: str, errors: str) -> None:
    os.chdir(folder)
    for descriptor, file in ((1, output), (2, errors)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def _run(words: list[str]) -> int:
    if words[:2] == ["-m", "cordwood"]:
        from cordwood.cli import main

        return main(words[2:])
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    _serve()
