"""``cordwood export``: the samples of a store as files of their own."""

import argparse
import json
import sys

from cordwood.common.progress_line import ProgressLine
from cordwood.errors import UsageError

HELP = "write the samples of a store to files of their own"
_EXAMPLES = """\
examples:
  cordwood export train.cordwood out/ --to pt           one file a sample, which torch.load reads
  cordwood export train.cordwood out/ --to cord --goal small

A packed store knows the paths of its inputs, and the files mirror them: cats/1.jpg becomes out/cats/1.pt, or
out/cats/1-0.pt and so on if it became several samples. Samples of other stores are named by their number.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood export`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument("store", metavar="STORE", help="the folder of a store")
    parser.add_argument("folder", metavar="OUT", help="the folder to write the files to, empty or new")
    parser.add_argument(
        "--to",
        choices=("pt", "cord"),
        default="pt",
        help="format of the files: pt or cord (default: %(default)s)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace files of the same names in a folder that is not empty",
    )
    parser.add_argument("--compress", action="store_true", help="deflate the records of .pt files")
    parser.add_argument(
        "--goal",
        choices=("small", "balanced", "fast", "raw"),
        help="what the codecs of .cord files aim at: small, balanced, fast or raw (default: balanced)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads that write (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of text")


def run(arguments: argparse.Namespace) -> int:
    """Write the files and print what came of it."""
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads}: at least one is needed")
    if arguments.to == "cord" and arguments.compress:
        raise UsageError("--compress is for .pt files; .cord files are compressed by their --goal")
    if arguments.to == "pt" and arguments.goal is not None:
        raise UsageError("--goal is for .cord files; .pt files can be deflated with --compress")
    from cordwood.common.text import printable
    from cordwood.packing import export

    with ProgressLine(sys.stderr) as progress:
        exported = export(
            arguments.store,
            arguments.folder,
            arguments.to,
            overwrite=arguments.overwrite,
            compress=True if arguments.compress else None,
            goal=arguments.goal or "balanced",
            threads=arguments.threads,
            progress=(lambda done, total: progress("samples", done, total)) if sys.stderr.isatty() else None,
        )
    if arguments.json:
        print(json.dumps(exported.to_dict(), indent=2))
    else:
        print("\n".join(map(printable, str(exported).split("\n"))))
    return 0
