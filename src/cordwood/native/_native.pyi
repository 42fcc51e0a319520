"""Types of the native module. An error tuple is (item, reason, field, found, expected, offset, block)."""

from typing import Any

# Whatever has the buffer protocol; NumPy's arrays have it, but their types say so only from Python 3.12 on.
Buffer = Any

ErrorTuple = tuple[int, int, str, int, int, int, int]

def decode_batch(
    frames: tuple[Buffer, ...],
    outs: tuple[Buffer, ...],
    accepted: bytes,
    plans: tuple[tuple[int, bytes], ...],
    normalize: tuple[bytes, int, int, float, bytes, bytes] | None,
    threads: int,
    limit: int,
    /,
) -> ErrorTuple | None: ...
def parse(frame: Buffer, /) -> dict[str, Any] | ErrorTuple: ...
def encode(
    data: Buffer,
    shape: tuple[int, ...],
    settings: tuple[int, ...],
    formula: bytes,
    plans: tuple[tuple[int, bytes], ...],
    threads: int,
    /,
) -> bytes | ErrorTuple: ...
def learn_tables(
    samples: tuple[tuple[Buffer, tuple[int, ...], tuple[int, ...], bytes], ...], coder: int, max_tables: int, /
) -> bytes | ErrorTuple: ...
def train_dictionary(samples: bytes, sizes: tuple[int, ...], room: int, /) -> bytes: ...
def distinct(data: Buffer, itemsize: int, palettes: int, inner: int, bits: int, /) -> tuple[bytes, ...] | None: ...
def crc32c(data: Buffer, /) -> int: ...
def crc32(data: Buffer, crc: int = 0, /) -> int: ...
def check_plan(assets: bytes, /) -> ErrorTuple | None: ...
def fast_cpu() -> bool: ...
