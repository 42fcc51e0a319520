"""Writes the golden tensor files that are not there yet: ``python -m tests.golden.tensors.make``.

A golden file is never written again: every later Cordwood must read these very bytes.
"""

import hashlib
from pathlib import Path

from cordwood.tensors import save
from tests.golden.tensors.objects import GOLDEN

HERE = Path(__file__).parent
SUMS = HERE / "SHA256SUMS"


def main() -> None:
    for name, golden in GOLDEN.items():
        path = HERE / "files" / f"{name}.cord"
        if not path.exists():
            save(golden.make(), path, goal=golden.goal)
    files = sorted(HERE.glob("files/*.cord"))
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(HERE).as_posix()}\n" for file in files
    ]
    SUMS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
