"""``cordwood bench``: run a benchmark of the checkout that this folder belongs to.

Benchmarks live beside the package, not inside it: they need rivals, data and a quiet machine, which a wheel has not.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from cordwood.errors import UsageError

HELP = "run a benchmark (in a checkout of the project)"

_SUITES = ("codecs", "tensors", "store", "feed", "pack", "plans", "doctor", "scaling", "check")
_EXAMPLES = """examples:
  make bench                            install the rivals into an environment of their own, and run everything
  cordwood bench codecs --quick         a look in a minute
  cordwood bench feed --only training   the parts whose title or goals contain the word
  cordwood bench scaling                how cost grows, with charts
  cordwood bench check codecs           compare a new run with the committed results; 1 if something got worse
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood bench`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "suite",
        choices=_SUITES,
        metavar="SUITE",
        help=f"what to measure: {', '.join(_SUITES[:-1])}; or check, which measures anew and compares",
    )
    parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="options of the suite, such as --quick, --only WORD and --json FILE, which writes the results to a file; "
        "cordwood bench SUITE --help lists them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Find the suite in the checkout and hand the options on to its ``main``."""
    root = find_checkout(Path.cwd(), arguments.suite)
    return load_main(root, arguments.suite)(arguments.options)


def find_checkout(start: Path, suite: str) -> Path:
    """The nearest folder, from ``start`` upwards, that is a checkout of the project with this suite in it."""
    for folder in (start, *start.parents):
        if (folder / "benchmarks" / suite / "__main__.py").is_file() and _is_ours(folder / "pyproject.toml"):
            return folder
    raise UsageError(
        f"benchmarks/{suite} was not found in {start} or above it; benchmarks are not part of the installed "
        "package, so run this inside a checkout of the project, after `make bench` has installed what they need"
    )


def load_main(root: Path, suite: str) -> Callable[[list[str]], int]:
    """The suite's ``main(argv) -> int``, imported with the checkout on the path so that it finds its neighbours."""
    sys.path.insert(0, str(root))
    try:
        module = import_module(f"benchmarks.{suite}.__main__")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the benchmark needs the module {error.name!r}, which is not installed; run `make bench` in {root}, which "
            "makes an environment with everything, or: pip install -c constraints.txt -e '.[bench]'"
        ) from error
    return cast("Callable[[list[str]], int]", module.main)


def _is_ours(pyproject: Path) -> bool:
    """Whether this is Cordwood's own checkout: somebody else's benchmarks must not be run."""
    try:
        project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False
    return isinstance(project, dict) and project.get("name") == "cordwood"
