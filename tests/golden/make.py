"""Writes the golden frames that are not there yet: ``python -m tests.golden.make``.

A golden frame is never written again: every later Cordwood must read these very bytes.
"""

import hashlib
from pathlib import Path

from cordwood import codecs
from tests.golden.arrays import GOLDEN

HERE = Path(__file__).parent
SUMS = HERE / "SHA256SUMS"


def frame_path(name: str) -> Path:
    """The file of a golden frame, in the folder named by the first word of its name."""
    return HERE / "frames" / name.partition("-")[0] / f"{name}.cwfr"


def main() -> None:
    for name, golden in GOLDEN.items():
        path = frame_path(name)
        if path.exists():
            continue
        frame = codecs.encode(golden.array, golden.plan, dtype=golden.dtype)
        path.write_bytes(frame)
        if codecs.frame_info(frame).plan_hash is not None:
            path.with_suffix(".cwpl").write_bytes(golden.assets.encoded)
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(HERE).as_posix()}\n"
        for file in sorted(HERE.glob("frames/*/*.cw*"))
    ]
    SUMS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
