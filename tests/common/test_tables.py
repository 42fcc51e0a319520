"""Tables and lists for a terminal."""

import pytest

from cordwood.common.tables import fit, fold, folded, section, table, wrapped

ROWS = [("name", "size", "note"), ("layers.0.weight", "1,234 B", "shared with two others"), ("b", "4 B", "")]


def test_headings_a_rule_and_rows() -> None:
    assert list(table(ROWS, 100, (), right={1})) == [
        "name                size  note",
        "---------------  -------  ----------------------",
        "layers.0.weight  1,234 B  shared with two others",
        "b                    4 B",
    ]


def test_columns_give_way_in_turns() -> None:
    assert list(table(ROWS, 36, ((2, 14), (0, 8)), right={1})) == [
        "name            size  note",
        "-----------  -------  --------------",
        "lay...eight  1,234 B  shared with...",
        "b                4 B",
    ]


def test_a_last_column_without_values_is_left_out() -> None:
    assert fit([("a", "note"), ("long", "")], 80, ()) == [4, 0]
    assert list(table([("a", "note"), ("long", "")], 80, (), right=())) == ["a", "----", "long"]


def test_a_list_has_its_title_once_and_an_end() -> None:
    assert list(section("needs", ["one", "two\x1b", "three"], 80, most=2)) == [
        "needs     one",
        "          two\\x1b",
        "          ... 1 more",
    ]


def test_a_command_is_not_broken() -> None:
    assert list(wrapped("some words to read", 10)) == ["some words", "  to read"]
    told = "the file has waste: cordwood trim a-file-with-a-long-name.pt"
    assert list(wrapped(told, 30)) == ["the file has waste:", "  cordwood trim a-file-with-a-long-name.pt"]


def test_a_column_that_may_get_no_room_is_left_out_and_others_have_it() -> None:
    assert list(table(ROWS, 20, ((2, 14), (0, 8), (2, 0)), right={1})) == [
        "name            size",
        "-----------  -------",
        "lay...eight  1,234 B",
        "b                4 B",
    ]


def test_a_long_line_continues_below_its_last_cell() -> None:
    assert fold("bytes out  9.5 MB  1 shard, smaller than the values", 40) == [
        "bytes out  9.5 MB  1 shard, smaller than",
        "                   the values",
    ]
    assert fold("no cells, but a word/that-is-longer-than-a-line", 20) == [
        "no cells, but a",
        "  word/that-is-longer-than-a-line",
    ]
    for copied in ("next: ds = cw.open('train.cordwood')", "advice: cordwood trim x.pt -o x-small.pt"):
        assert fold(copied, 20) == [copied]


def test_text_is_folded_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a line of some words", "another"]
    assert folded(lines) == "a line of some words\nanother"
    monkeypatch.setenv("COLUMNS", "12")
    assert folded(lines) == "a line of\n  some words\nanother"
