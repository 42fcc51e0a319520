"""``cordwood merge``: join stores into a new one, without writing their samples again."""

import argparse
import json
import sys

from cordwood.common.progress_line import ProgressLine

HELP = "join stores into a new one, without writing their samples again"
_EXAMPLES = """\
examples:
  cordwood merge a.cordwood b.cordwood -o all.cordwood
  cordwood merge part{1..16}.cordwood -o all.cordwood    all parts of one job, in any order

The shards are linked, which takes no room, or copied if the new store is on another file system. The stores stay as
they are. Parts of one job (`cordwood pack --part 3/16`) become the store that one run would have packed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood merge`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "stores", metavar="STORE", nargs="+", help="the folders of the stores; their order is that of the samples"
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the folder of the new store")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of text")


def run(arguments: argparse.Namespace) -> int:
    """Join the stores and print what came of it."""
    from cordwood.common.text import printable
    from cordwood.packing import merge

    with ProgressLine(sys.stderr) as progress:
        step = (lambda done, total: progress("shards", done, total)) if sys.stderr.isatty() else None
        merged = merge(arguments.stores, arguments.output, progress=step)
    if arguments.json:
        print(json.dumps(merged.to_dict(), indent=2))
    else:
        print("\n".join(map(printable, str(merged).split("\n"))))
    return 0
