"""Rows in memory and in a file without a name: the same bytes, wherever they are."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import StorageError
from cordwood.store.writing import open_shard
from cordwood.store.writing.open_shard import SpooledRows


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 64), st.data())
def test_what_was_added_is_read_anywhere(parts: list[bytes], in_memory: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_shard, "_IN_MEMORY", in_memory)
        patch.setattr(open_shard, "_AT_ONCE", data.draw(st.integers(1, 50)))
        rows = SpooledRows("/tmp")
        for part in parts:
            rows.append(part)
        whole = b"".join(parts)
        assert rows.size == len(whole)
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, len(whole)))
        assert rows.read(start, end) == whole[start:end]
        assert b"".join(rows.pieces(data.draw(st.integers(1, 9)))) == whole
        rows.close()


def test_the_file_has_no_name_and_a_forked_process_changes_nothing(tmp_path: Path) -> None:
    rows = SpooledRows(tmp_path)
    rows.append(b"a" * (2 << 20))
    assert list(tmp_path.iterdir()) == []
    child = os.fork()
    if child == 0:
        rows.append(b"b")
        rows.close()
        os._exit(0)
    os.waitpid(child, 0)
    rows.append(b"c")
    assert rows.read((2 << 20) - 1, rows.size) == b"ac"
    rows.close()


def test_a_folder_that_takes_no_file(tmp_path: Path) -> None:
    rows = SpooledRows(tmp_path / "missing")
    rows.append(b"a")
    with pytest.raises(StorageError, match="rows of a shard cannot be kept"):
        rows.append(b"a" * (1 << 20))
