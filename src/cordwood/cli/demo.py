"""``cordwood demo``: save views and a small image folder in every way, train on it, ask the doctor, show the costs."""

import argparse
import sys
from pathlib import Path

from cordwood.cli.progress import Progress

HELP = "save views and a small image folder in every way, train on it, ask the doctor, and show what each costs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood demo`` takes."""
    parser.add_argument(
        "--folder", type=Path, default=Path("cordwood-demo"), metavar="DIR", help="where to work (default: %(default)s)"
    )
    parser.add_argument("--images", type=int, default=240, metavar="N", help="how many images (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and print its table."""
    from cordwood.demo import format_report, run_demo  # imports torch: `cordwood --help` must not

    with Progress(sys.stderr) as progress:
        report = run_demo(arguments.folder, images=arguments.images, progress=progress)
    print(format_report(report))
    return 0
