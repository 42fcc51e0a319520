"""Types of the native module. An error tuple is (item, reason, field, found, expected, offset, block)."""

from typing import Any, Literal

# Whatever has the buffer protocol; NumPy's arrays have it, but their types say so only from Python 3.12 on.
Buffer = Any

# Handles of native memory; nothing but a call can look into them.
class Store: ...
class PlanSet: ...
class Encoder: ...

# What must be attached first; that something is absent; or what is wrong: which of the wanted (-1: the row), and why.
ReadAnswer = (
    tuple[Literal["attach"], list[int]]
    | tuple[Literal["uneven"], list[int]]
    | tuple[Literal["faults"], list[tuple[int, "ErrorTuple"]]]
)
ErrorTuple = tuple[int, int, str, int, int, int, int]

# Of an image: normalisation, channels last as stored, channels last as wanted, parts of every sample, height and
# width of what comes out of them and of what they were drawn for, and what is outside of the image.
Treatment = tuple[
    tuple[bytes, int, int, float, bytes, bytes] | None, bool, bool, Buffer | None, int, int, int, int, float
]

def decode_batch(
    frames: tuple[Buffer, ...],
    outs: tuple[Buffer, ...],
    accepted: bytes,
    plans: PlanSet,
    own: bytes,
    normalize: tuple[bytes, int, int, float, bytes, bytes] | None,
    threads: int,
    limit: int,
    /,
) -> ErrorTuple | None: ...
def parse(frame: Buffer, plans: PlanSet, number: int, /) -> dict[str, Any] | ErrorTuple: ...
def encoder(
    shape: tuple[int, ...] | None,
    alternatives: tuple[tuple[tuple[int, ...], bytes, int, bytes, bool, int, int], ...],
    menu: int,
    /,
) -> Encoder | ErrorTuple: ...
def encode(data: Buffer, shape: tuple[int, ...], encoder: Encoder, threads: int, /) -> bytes | ErrorTuple: ...
def encode_batch(
    items: tuple[tuple[Buffer, tuple[int, ...], Encoder], ...], threads: int, /
) -> list[bytes | ErrorTuple]: ...
def learn_tables(
    samples: tuple[tuple[Buffer, tuple[int, ...]], ...], encoder: Encoder, coder: int, max_tables: int, /
) -> bytes | ErrorTuple: ...
def train_dictionary(samples: bytes, sizes: tuple[int, ...], room: int, /) -> bytes: ...
def distinct(data: Buffer, itemsize: int, palettes: int, inner: int, bits: int, /) -> tuple[bytes, ...] | None: ...
def store_new(firsts: Buffer, row_size: int, frames: int, usual_states: bytes, /) -> Store: ...
def store_attach(
    store: Store, number: int, fd: int, size: int, rows_offset: int, table: bytes, sparse: bool, /
) -> int: ...
def store_attach_memory(store: Store, number: int, shard: Buffer, rows_offset: int, table: bytes, /) -> None: ...
def store_advise(store: Store, indices: Buffer, wanted: bytes, /) -> int | tuple[str, list[int]]: ...
def store_read(
    store: Store,
    indices: Buffer,
    rows: Buffer | None,
    columns: tuple[tuple[int, int, Buffer], ...],
    wanted: tuple[tuple[int, int, int, tuple[Buffer | None, ...] | list[bytes | None], Treatment | None], ...],
    plans: PlanSet,
    threads: int,
    limit: int,
    bytes_read: Buffer | None,
    /,
) -> ReadAnswer | None: ...
def store_bytes(
    store: Store, indices: Buffer, begins: Buffer, sizes: Buffer, /
) -> list[bytes] | tuple[str, list[Any]]: ...
def store_shapes(
    store: Store, indices: Buffer, frame: int, plans: PlanSet, threads: int, /
) -> ReadAnswer | list[tuple[int, tuple[int, ...]] | None]: ...
def rows_unpack(
    fd: int, size: int, rows_offset: int, count: int, row_size: int, frames: int, table: bytes, /
) -> tuple[bytes, bytes] | int: ...
def frame_tags(frames: list[bytes], /) -> tuple[bytes, bytes]: ...
def plan_set(
    plans: tuple[tuple[int, int, tuple[int, ...] | None, tuple[tuple[int, bytes, bytes | None], ...]], ...], /
) -> PlanSet | ErrorTuple: ...
def resize(images: Buffer, boxes: Buffer, out: Buffer, interleaved: bool, fill: float, threads: int, /) -> None: ...
def crc32c(data: Buffer, /) -> int: ...
def crc32c_rows(data: Buffer, row_size: int, covered: int, first: int, /) -> bytes: ...
def crc32(data: Buffer, crc: int = 0, /) -> int: ...
def check_plan(assets: bytes, /) -> ErrorTuple | None: ...
def fast_cpu() -> bool: ...
