"""Prints the library's log on stderr: warnings by default, more with ``CORDWOOD_LOG=info`` or ``debug``.

    with shown_log():
        ...         # what goes to the logger "cordwood" is printed

The library itself configures nothing: a program that imports it decides what is shown.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.common.arguments import one_of

VARIABLE = "CORDWOOD_LOG"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@contextmanager
def shown_log() -> Iterator[None]:
    """Print what the library logs, as long as the command runs."""
    level = _level()
    logger = logging.getLogger("cordwood")
    before = logger.level
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLineFormatter())
    # A script that the command runs may configure logging: it then shows what is logged itself.
    handler.addFilter(lambda record: not logging.getLogger().handlers)
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def debugging() -> bool:
    """Whether everything is to be told."""
    return _word() == "debug"


def _word() -> str:
    return os.environ.get(VARIABLE, "").strip().lower() or "warning"


def _level() -> int:
    return _LEVELS[one_of(VARIABLE, _word(), _LEVELS)]


class _OneLineFormatter(logging.Formatter):
    """One line a message, in which a name from a file cannot steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        from cordwood.common.text import printable

        level = "" if record.levelno == logging.WARNING else f"{record.levelname.lower()}: "
        line = f"{record.name}: {level}{printable(record.getMessage())}"
        # On a terminal a bar may stand in the line: it is written over, and comes back below.
        return "\r" + line.ljust(shutil.get_terminal_size().columns - 1) if sys.stderr.isatty() else line
