"""Shows the progress of a long job: one line that is written over on a terminal, plain lines elsewhere."""

import shutil
from types import TracebackType
from typing import Self, TextIO


class ProgressLine:
    """A callable ``progress(step, done, total)`` that shows how far a job is.

    ::

        with ProgressLine(sys.stderr) as progress:
            for done, path in enumerate(paths, 1):
                work(path)
                progress("reading", done, len(paths))
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._overwrite = stream.isatty()
        self._shown = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        """Tell that ``done`` of ``total`` parts of this step are ready."""
        if self._overwrite:
            width = shutil.get_terminal_size().columns - 1
            line = f"{step}  {done}/{total}"[:width]
            self._stream.write("\r" + line.ljust(len(self._shown)))
            self._shown = line
        elif done == total:
            self._stream.write(f"{step}  {total}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """The line was only of use while the job ran: leave the terminal to what comes next."""
        if self._shown:
            self._stream.write("\r" + " " * len(self._shown) + "\r")
            self._stream.flush()
            self._shown = ""
