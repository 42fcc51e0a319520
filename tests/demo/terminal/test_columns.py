"""Text that fits a terminal: whole words, aligned cells, and commands that a shell still takes."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from cordwood.demo.terminal.columns import WIDTH, command_lines, folded, noted, paragraph, table

words = st.lists(st.text("abc-", min_size=1, max_size=12), min_size=1, max_size=60)


@given(words)
def test_a_paragraph_loses_no_word(some: list[str]) -> None:
    for lines in (paragraph(" ".join(some)), folded(" ".join(some))):
        assert " ".join(lines).split() == some
        assert all(len(line) <= WIDTH and line.startswith("  ") for line in lines)


def test_a_cell_that_is_too_long_goes_on_below_itself() -> None:
    line = "torch.save would take  96.6 MB  " + "counted by the first of them " * 2
    assert folded(line) == [
        "  torch.save would take  96.6 MB  counted by the first of them counted by the",
        "                                  first of them",
    ]
    assert folded("short  9") == ["  short  9"]
    assert folded("") == [""]


def test_where_a_last_cell_has_no_room_the_line_is_folded_as_a_whole() -> None:
    line = f"{'a' * 70}  some more words"
    assert folded(line) == [f"  {'a' * 70}  some", "    more words"]


def test_the_meaning_of_a_word_goes_on_to_its_right() -> None:
    assert noted("waiting", "for " * 20 + "a core") == [
        "  waiting: " + " ".join(["for"] * 17),
        "    for for for a core",
    ]


def test_figures_are_aligned_to_the_right() -> None:
    assert table(("way", "bytes"), [("a file", "12"), ("x", "1,234,567")]) == [
        "  way         bytes",
        "  ------  ---------",
        "  a file         12",
        "  x       1,234,567",
    ]


@given(st.lists(st.text("ab -'", min_size=1, max_size=30), max_size=9))
def test_a_command_in_several_lines_is_the_same_command(some: list[str]) -> None:
    command = shlex.join(["cordwood", "pack", *some])
    lines = command_lines(command)
    assert lines[0].startswith("  $ cordwood pack")
    assert all(line.replace("'", "").startswith("      --") for line in lines[1:])
    assert shlex.split("\n".join(lines).replace("\\\n", ""))[1:] == shlex.split(command)


def test_a_short_command_is_one_line() -> None:
    assert command_lines("cordwood pack a b --goal fast") == ["  $ cordwood pack a b --goal fast"]
