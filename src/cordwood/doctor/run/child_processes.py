"""Follows training into processes that a script starts, as ``torch.multiprocessing.spawn`` does.

Each of them is watched by a session of its own, which leaves its report in a folder; the first rank also replays and
tries. Workers of loaders and of pools are no trainers, and left alone.
"""

import functools
import json
import multiprocessing.process
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.run.temp_folder import Folder
from cordwood.errors import CordwoodError

if TYPE_CHECKING:
    from cordwood.doctor.report.report import Report
    from cordwood.doctor.run.session import Session

# Where functions come from that serve others, and train nothing.
_SERVANTS = ("multiprocessing.", "concurrent.", "torch.utils.data", "cordwood.", "joblib", "loky")


class Children:
    """While a script runs, processes that it starts are watched, too. ``options`` is what their sessions are given."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._patches = Patches()
        self._folder = Folder(self)
        self._programs = 0  # of Python that were started as such

    def __enter__(self) -> "Children":
        start = multiprocessing.process.BaseProcess.start
        folder, options = str(self._folder.path), self._options

        def watched_start(process: Any) -> None:
            target = getattr(process, "_target", None)
            if target is None or _serves(target):
                return start(process)
            # The child gets its target wrapped; the object here is as before when this returns.
            process._target = WatchedTarget(target, folder, options)
            try:
                return start(process)
            finally:
                process._target = target

        self._patches.replace(multiprocessing.process.BaseProcess, "start", watched_start)
        self._patches.replace(subprocess.Popen, "__init__", self._counting(subprocess.Popen.__init__))
        return self

    def _counting(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(popen: Any, args: Any, *others: Any, **options: Any) -> None:  # noqa: N807
            words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
            self._programs += any("python" in os.fsdecode(word) for word in words[:1])
            original(popen, args, *others, **options)

        return __init__

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patches.undo()

    def report(self, notes: list[str]) -> "Report | None":
        """That of the first rank, if processes of the script have trained; others are told of in a note.

        What could not be watched is put into `notes`.
        """
        if self._programs:
            notes.append(
                f"the script started {self._programs} other Python programs, which are not watched. To examine a "
                "torchrun job: torchrun --nproc-per-node 2 -m cordwood doctor --json report.json train.py"
            )
        from cordwood.doctor.report.report import Report

        found = []
        for path in sorted(self._folder.path.glob("*.json")):
            try:
                found.append(Report.load(path))
            except CordwoodError as error:
                print(f"cordwood: what a process of the script left cannot be read: {error}", file=sys.stderr)
        self._folder.remove()
        if not found:
            return None
        found.sort(key=lambda report: report.document["environment"].get("rank", 0))
        first, *others = found
        for number, other in enumerate(others, 1):
            environment = other.document["environment"]
            name = f"rank {environment['rank']}" if environment.get("world_size", 1) > 1 else f"process {number}"
            first.document["notes"].append(f"{name}: {other.verdict}")
        return first


class WatchedTarget:
    """The function that a child process runs, with a session around it."""

    def __init__(self, target: Callable[..., Any], folder: str, options: dict[str, Any]) -> None:
        self._target = target
        self._folder = folder
        self._options = options

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        session = self._attached()
        if session is None:
            return self._target(*arguments, **options)
        try:
            return self._target(*arguments, **options)
        finally:
            session.detach()
            if session.steps_seen:
                self._leave(session)

    def _attached(self) -> "Session | None":
        """A session, or None if there can be none: the child works all the same."""
        try:
            from cordwood.doctor.run.session import Session, after_fork

            after_fork()
            session = Session(**self._options)
            session.attach()
        except Exception as error:
            _complain(error)
            return None
        return session

    def _leave(self, session: "Session") -> None:
        try:
            if session.evidence.environment["rank"]:
                session.evidence.seconds_to_spend = 0.0
            document = session.report().document
            path = Path(self._folder, f"{os.getpid()}.json")
            aside = path.with_suffix(".part")
            aside.write_text(json.dumps(document), encoding="utf-8")
            aside.replace(path)
        except Exception as error:
            _complain(error)


def _complain(error: Exception) -> None:
    print(f"cordwood: process {os.getpid()} is not told of: {type(error).__name__}: {error}", file=sys.stderr)


def _serves(target: Any) -> bool:
    module = getattr(target, "__module__", "") or ""
    return module.startswith(_SERVANTS)
