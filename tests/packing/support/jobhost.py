"""A process that forks packing jobs and lets them die, because importing torch for each of them would take long.

    with JobHost() as host:
        host.run(dest="...", form="single", workers=0, at_call=17)      # Ended(code=-9, out="")

A job is the script `unguarded_job.py`; only the parent of its processes is forked, workers start as they always do.
The answer comes when the last process of the job has ended, the workers of a killed one too.
"""

import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

SCRIPT = Path(__file__).with_name("unguarded_job.py")


class Ended(NamedTuple):
    """How a job ended: its exit code, or a signal's number below zero, and what was printed."""

    code: int
    out: str

    @property
    def told(self) -> dict[str, Any]:
        """What the job said at its good end."""
        assert self.code == 0, self.out
        told: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return told


def run_job(settings: str, output: int) -> None:
    """In the forked process."""
    code = 1
    try:
        os.setpgid(0, 0)  # signals to its group are its own affair
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = [str(SCRIPT), settings]
        runpy.run_path(str(SCRIPT), run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    import cordwood as cw

    cw.pack  # noqa: B018 - loads what the forked processes need
    answers = os.dup(1)
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            run_job(line, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            out = pipe.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(answers, json.dumps([code, out]).encode() + b"\n")


class JobHost:
    """The host, for a test."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.packing.support.jobhost"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, **settings: Any) -> Ended:
        """Run a job to its end, whichever that is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(settings), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the host died"
        return Ended(*json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.communicate()


if __name__ == "__main__":
    serve()
