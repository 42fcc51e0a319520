"""Writes the golden stores that are not there yet: ``python -m tests.golden.store.make``.

A golden store is never written again: every later Cordwood must read these very bytes.
"""

import hashlib
from pathlib import Path

from cordwood.store.writer import Writer
from tests.golden.store.stores import GOLDEN, GoldenStore

HERE = Path(__file__).parent
SUMS = HERE / "SHA256SUMS"


def write(golden: GoldenStore, path: Path, threads: int | None = None) -> None:
    """One store, without its lock, which is no part of it."""
    options = {"fields": golden.fields, "shard_bytes": golden.shard_bytes, "threads": threads}
    with Writer(path, golden.goal, **options) as writer:  # type: ignore[arg-type]
        for sample in golden.make():
            writer.append(sample)
    (path / ".lock").unlink()


def files(folder: Path) -> list[Path]:
    """All files of all stores in a folder."""
    return sorted(path for path in folder.glob("*.cordwood/**/*") if path.is_file())


def main() -> None:
    for name, golden in GOLDEN.items():
        path = HERE / f"{name}.cordwood"
        if not path.exists():
            write(golden, path)
    sums = {file.relative_to(HERE).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files(HERE)}
    SUMS.write_text("".join(f"{recorded}  {name}\n" for name, recorded in sums.items()), encoding="utf-8")


if __name__ == "__main__":
    main()
