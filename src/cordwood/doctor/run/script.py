"""Runs a user's script unchanged in this process, with the doctor watching.

    code, report = run_script("train.py", ["--epochs", "1"], DoctorOptions(steps=50))

The script is ``__main__``, as ``python train.py`` or ``python -m pkg.train`` would have it: its own arguments, its own
folder first in the path, classes that pickle, and processes that it spawns. It stays ``__main__`` while rules judge,
since they may start workers that need it. Its exit code is kept, whatever way it ends.
"""

import builtins
import importlib.util
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.common import PACKAGE
from cordwood.doctor.evidence.places import count_as_own
from cordwood.doctor.rules.judging import Progress
from cordwood.doctor.run.child_processes import Children
from cordwood.doctor.run.session import SECONDS, Session
from cordwood.errors import DoctorError, UsageError

if TYPE_CHECKING:
    from cordwood.doctor.report.report import Report

_INTERRUPTED = 130
_DOCTOR = str(PACKAGE / "doctor")


@dataclass(frozen=True)
class DoctorOptions:
    """How to watch."""

    steps: int | None = None  # after so many training steps everything is undone, and the script goes on
    seconds: float = SECONDS  # that a rule may spend on replays and trials
    pstats: str | None = None  # a file for the sampled stacks
    progress: Progress | None = None  # told of each rule before it judges


def run_script(
    target: str, arguments: Sequence[str], options: DoctorOptions | None = None, *, module: bool = False
) -> tuple[int, "Report | None"]:
    """The script's exit code, and the report; None if the doctor could not watch at all."""
    options = options or DoctorOptions()
    main, code, first_path = _prepared_module(target) if module else _prepared_file(target)
    watching: dict[str, Any] = {
        "steps": options.steps,
        "seconds": options.seconds,
        "script": shlex.join([target, *arguments]),
        "path": main.__file__,
    }
    session = Session(**watching)
    process = os.getpid()
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    sys.argv = [str(main.__file__) if module else target, *arguments]
    sys.path.insert(0, first_path)
    sys.modules["__main__"] = main
    try:
        attached = _attach(session)
        with _watched_children(watching) as children:
            exit_code = _run(main, code)
        if os.getpid() != process:  # a child that the script forked ends as any other program does
            session.abandon()
            return exit_code, None
        session.detach()
        _flush_stdout()
        report = _report(session, children, options) if attached else None
    finally:
        session.detach()
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]
    return exit_code, report


def _report(session: Session, children: Children | None, options: DoctorOptions) -> "Report | None":
    """What is to be told; whatever goes wrong here, the script's exit code is not lost."""
    try:
        report = children.report(session.evidence.notes) if children is not None and not session.steps_seen else None
        if report is None:
            report = session.report(options.progress)
        if options.pstats is not None and session.evidence.stacks is not None:
            session.evidence.stacks.write_pstats(options.pstats)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        print(f"cordwood: the report could not be made: {type(error).__name__}: {error} ({place})", file=sys.stderr)
        return None
    return report


def _watched_children(watching: dict[str, Any]) -> "Children | nullcontext[None]":
    try:
        return Children(**watching)
    except Exception as error:
        print(f"cordwood: processes of the script are not watched: {error}", file=sys.stderr)
        return nullcontext()


def _attach(session: Session) -> bool:
    """Begin to watch; if the doctor cannot, the script runs all the same."""
    try:
        session.attach()
    except DoctorError as error:
        print(f"cordwood: {error}; the script runs without it", file=sys.stderr)
        return False
    return True


def _prepared_file(target: str) -> tuple[ModuleType, Any, str]:
    """The module ``__main__``, its code, and what comes first in the path."""
    path = Path(target).absolute()  # as Python does, so that the script may change its folder
    if path.is_dir() and (path / "__main__.py").is_file():
        path, first = path / "__main__.py", str(path)
    elif path.is_file():
        first = str(path.resolve().parent)
    else:
        raise UsageError(f"{target} is no file: a Python script is expected, or -m and the name of a module")
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{target}{where} is no Python: {error}") from error
    main = _main_module(str(path))
    return main, code, first


def _prepared_module(name: str) -> tuple[ModuleType, Any, str]:
    here, path = str(Path.cwd()), sys.path[:]
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise UsageError(f"-m {name}: {error}: is it installed, or below {here}?") from error
    finally:
        sys.path[:] = path
    if spec is None or spec.loader is None or spec.origin is None:
        raise UsageError(f"-m {name}: no such module in {here} or among the installed packages, or none that runs")
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        raise UsageError(f"-m {name}: it has no Python code to run")
    main = _main_module(spec.origin)
    main.__spec__, main.__package__, main.__loader__ = spec, spec.parent, spec.loader
    count_as_own(str(Path(spec.origin).parent))
    return main, code, here


def _main_module(file: str) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__ = file
    main.__loader__ = SourceFileLoader("__main__", file)
    main.__dict__["__builtins__"] = builtins  # in other modules than this one it is a dict
    main.__dict__["__cached__"] = None
    return main


def _run(main: ModuleType, code: Any) -> int:
    """Run it as Python would, and say with which code it ends."""
    before = set(threading.enumerate())
    try:
        exec(code, main.__dict__)  # noqa: S102 - running the user's script is what we are for
        _wait_for_threads(before)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        _print_without_us(error)
        return _INTERRUPTED
    except BaseException as error:
        _print_without_us(error)
        return 1
    return 0


def _wait_for_threads(before: set[threading.Thread]) -> None:
    """What Python does at its end: a thread that is no daemon may still be training."""
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join()


def _print_without_us(error: BaseException) -> None:
    """The traceback as the user knows it: without the frames of the doctor."""
    trace = _without_us(error.__traceback__, str(PACKAGE))
    behind = trace
    while behind is not None:
        behind.tb_next = _without_us(behind.tb_next, _DOCTOR)
        behind = behind.tb_next
    _flush_stdout()
    if sys.excepthook is not sys.__excepthook__:  # the script's own: it logs, or opens a debugger
        try:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        except Exception:
            print("Error in sys.excepthook:", file=sys.stderr)
            traceback.print_exc()
            print("\nOriginal exception was:", file=sys.stderr)
        else:
            return
    traceback.print_exception(type(error), error, trace)


def _flush_stdout() -> None:
    with suppress(AttributeError, OSError, ValueError):  # the script may have closed it
        sys.stdout.flush()


def _without_us(trace: TracebackType | None, folder: str) -> TracebackType | None:
    """A traceback from its first frame outside of this folder on."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(folder + os.sep):
        trace = trace.tb_next
    return trace
