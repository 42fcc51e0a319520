"""Progress: a line that is written over on a terminal, plain lines elsewhere."""

import io

from cordwood.common.progress_line import ProgressLine


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_a_step_is_one_line_when_it_is_ready() -> None:
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        for done in (1, 2, 3):
            progress("writing", done, 3)
        progress("reading", 1, 2)
    assert stream.getvalue() == "writing  3\n"


def test_on_a_terminal_the_line_is_written_over_and_wiped() -> None:
    stream = Terminal()
    with ProgressLine(stream) as progress:
        progress("a long step", 1, 2)
        progress("short", 1, 2)
    assert stream.getvalue() == "\ra long step  1/2" + "\rshort  1/2" + " " * 6 + "\r" + " " * 10 + "\r"
