"""``cordwood demo``: pack a small image folder, compare, train, trim, ask the doctor, and make a page of it."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from cordwood.common.progress_line import ProgressLine
from cordwood.common.tables import folded

HELP = "pack a small image folder, compare, train on it, trim views, ask the doctor; two minutes, and a page to look at"
_EXAMPLES = """\
examples:
  cordwood demo                             everything below cordwood-demo; then open cordwood-demo/index.html
  cordwood demo -o /tmp/look                somewhere else
  cordwood demo --images 1000               more images: longer, and steadier figures

It asks no network. It needs the packages of `pip install 'cordwood[demo]'`, whose photographs it uses.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood demo`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("cordwood-demo"),
        metavar="DIR",
        help="folder to work in, and to write the page to (default: %(default)s)",
    )
    parser.add_argument(
        "--images", type=int, default=160, metavar="N", help="number of images to pack (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; each act is printed when it is over."""
    from cordwood.demo import run_demo  # imports torch: `cordwood --help` must not

    with ExitStack() as shown:
        stage = DemoDisplay(shown)
        run_demo(
            arguments.output, images=arguments.images, progress=stage.progress, show=stage.show, bar=sys.stderr.isatty()
        )
    return 0


class DemoDisplay:
    """What goes on now on stderr, in a line that is gone when an act is over; the act on stdout."""

    def __init__(self, shown: ExitStack) -> None:
        self._shown = shown
        self._line = shown.enter_context(ProgressLine(sys.stderr))

    def progress(self, step: str, done: int, total: int) -> None:
        """How far a part of an act is."""
        self._line(step, done, total)

    def show(self, act: str) -> None:
        """An act that is over."""
        self._shown.close()
        print(f"{folded([act])}\n", flush=True)
        self._line = self._shown.enter_context(ProgressLine(sys.stderr))
