"""``cordwood doctor compare``: two reports side by side; did it get better?"""

import sys

from cordwood.cli.output import print_as_shown
from cordwood.cli.parser import Parser
from cordwood.errors import UsageError

WORD = "compare"  # a script of that name is run as ./compare
_DESCRIPTION = """\
Puts two reports side by side, the earlier one first: steps and phases, findings that are gone, not judged again and
new, and what was predicted beside what was got."""
_EXAMPLES = """\
examples:
  cordwood doctor --json before.json train.py
  cordwood doctor --json after.json train.py          after the change
  cordwood doctor compare before.json after.json      did it get better?

The comparison goes to stdout. Exit code: 1 if training got slower beyond the noise, else 0; 2: wrong use; 3: a file
that is no report, or one without a step that was measured. A script with that name is run as ./compare.
"""


def run(words: list[str]) -> int:
    """Compare the two reports that are named, and return the exit code."""
    if any(word in ("-h", "--help") for word in words):
        _parser().print_help()
        return 0
    options = [word for word in words if word.startswith("-")]
    if options:
        raise UsageError(f"compare has no option {options[0]}: cordwood doctor compare before.json after.json")
    if len(words) != 2:
        raise UsageError(
            "compare takes two reports, before and after: cordwood doctor compare before.json after.json "
            f"(given: {len(words)}; a script of that name is run as ./compare)"
        )
    from cordwood.doctor import Report, compare

    comparison = compare(Report.load(words[0]), Report.load(words[1]))
    print_as_shown(str(comparison), sys.stdout)
    return comparison.exit_code


def _parser() -> Parser:
    parser = Parser(
        prog="cordwood doctor compare",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("before", metavar="before.json", help="the report of the earlier run, written by --json")
    parser.add_argument("after", metavar="after.json", help="the report of the later run")
    return parser
