"""Tables and lists for a terminal."""

from cordwood.common.tables import fit, section, table, wrapped

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
