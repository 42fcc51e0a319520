"""The folder of a store: what counts as its size."""

from pathlib import Path

from cordwood.store.format.folder import store_bytes


def test_bytes_of_a_store_are_those_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / ".lock").write_bytes(b"4711 here")
    (tmp_path / ".shard.open").mkdir()
    (tmp_path / ".shard.open" / "rows").write_bytes(b"123")
    assert store_bytes(tmp_path) == 8
    assert store_bytes(tmp_path / "gone") == 0
