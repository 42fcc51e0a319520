"""Encodes arrays as frames, and decodes them."""

import math
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cordwood.codecs.choosing.chooser import plan
from cordwood.codecs.dtypes import BY_CODE, DTYPES, Array, BytesLike, dtype_of, plain
from cordwood.codecs.native_errors import raise_if_refused
from cordwood.codecs.normalize import Normalize
from cordwood.codecs.plan import GOALS, Goal, Plan, plan_set
from cordwood.common.arguments import whole_number
from cordwood.common.resources import default_threads, physical_memory
from cordwood.errors import UsageError
from cordwood.native import _native

_WORTH_A_THREAD = 32768  # bytes of an array
_BAD_CALL, _OUT_SHAPE, _OUT_DTYPE = 102, 200, 201  # the native module's own numbers, beside the format's reasons
SHORT_FRAMES = 64  # the first byte of a frame is below, of short ones; that of a full frame is above
NO_PLAN = (1 << 32) - 1  # a number that no plan has
NO_PLANS = plan_set(())


def _threads(threads: int | None) -> int:
    if threads is None:
        return default_threads()
    return min(whole_number("threads", threads, 1), 256)


def _limit(limit: int | None) -> int:
    if limit is None:
        return physical_memory()
    return min(whole_number("limit", limit, what="a number of bytes"), (1 << 64) - 1)


def _array(given: Any) -> Array:
    """`given` as a NumPy array, if it can be one without losing anything."""
    if isinstance(given, np.ma.MaskedArray):
        raise UsageError("a masked array would lose its mask: encode .data and .mask, each by itself")
    try:
        return np.asarray(given)
    except (TypeError, RuntimeError) as error:
        raise UsageError(
            f"a {type(given).__name__} that NumPy cannot take ({error}); pass .detach().cpu().numpy() of a "
            "torch tensor, "
            "of a bfloat16 one .view(torch.uint16).numpy() and dtype='bfloat16'"
        ) from None


def encode(
    array: Array, plan_or_goal: Plan | Goal = "balanced", *, dtype: str | None = None, threads: int | None = 1
) -> bytes:
    """One array as one frame.

    ::

        frame = codecs.encode(array)              # a plan is chosen for this array alone
        frame = codecs.encode(array, "small")
        frame = codecs.encode(array, plan)        # quicker: the choice was made before

    Bit for bit: NaN payloads, -0.0 and denormals come back as they are. ``dtype`` names what unsigned integers stand
    for ("bfloat16"). ``threads`` share the blocks of a large array; the bytes are the same for any number.
    """
    array = _array(array)
    kind = dtype_of(array, dtype)
    _check_size(array)
    chosen = plan([array], plan_or_goal, dtype=kind.name) if isinstance(plan_or_goal, str) else plan_or_goal
    if not isinstance(chosen, Plan):
        raise UsageError(f"encode takes a plan or a goal ({', '.join(GOALS)}), not {chosen!r}")
    if chosen.dtype != kind.name:
        raise UsageError(f"this plan is for {chosen.dtype}, but the array is {kind.name}: make a plan for it")
    return _encode(plain(array, kind), chosen, _threads(threads))


def _check_size(array: Array) -> None:
    """The format's limits; only empty arrays can be beyond them, whose other dimensions mean nothing."""
    if max(array.shape, default=0) >> 48 or math.prod(max(n, 1) for n in array.shape) * array.itemsize >> 56:
        raise UsageError(f"an array of shape {array.shape} is beyond the format: 2^48 a dimension, 2^56 bytes in all")


def _encode(array: Array, chosen: Plan, threads: int) -> bytes:
    answer: Any = _native.encode(array, array.shape, chosen.encoder(array.ndim, short=False), threads)
    raise_if_refused(answer, "array")
    frame: bytes = answer
    return frame


def encode_many(
    arrays: Iterable[Array],
    plan_or_goal: Plan | Goal = "balanced",
    *,
    threads: int | None = None,
    dtype: str | None = None,
) -> list[bytes]:
    """A frame for every array, on several threads; a goal means one plan, chosen on all of them.

    ::

        frames = codecs.encode_many(images, "small")
    """
    listed = [_array(array) for array in arrays]
    if not listed:
        return []
    chosen = plan(listed, plan_or_goal, dtype=dtype) if isinstance(plan_or_goal, str) else plan_or_goal
    workers = min(_threads(threads), len(listed))
    # tiny arrays are all Python, which one thread does best
    if workers <= 1 or sum(array.nbytes for array in listed) < _WORTH_A_THREAD * len(listed):
        return [encode(array, chosen, dtype=dtype) for array in listed]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda array: encode(array, chosen, dtype=dtype), listed))


@dataclass(frozen=True)
class FrameInfo:
    """What a frame says of itself; nothing was decoded."""

    dtype: str
    shape: tuple[int, ...]
    chain: str
    plan_hash: int | None
    nbytes: int  # of the array
    size: int  # of the frame
    blocks: int
    version: tuple[int, int]
    payload_offset: int  # where the first block begins


def _check_contiguous(frame: BytesLike) -> None:
    if isinstance(frame, memoryview | np.ndarray) and not memoryview(frame).c_contiguous:
        raise UsageError("the frame's bytes are not contiguous in memory: pass bytes(frame)")


def _header(frame: BytesLike, plans: Any = NO_PLANS, number: int = 0) -> dict[str, Any]:
    _check_contiguous(frame)
    answer = _native.parse(frame, plans, number)
    raise_if_refused(answer)
    assert isinstance(answer, dict)  # noqa: S101 - for the type checker: tuples were raised
    return answer


def frame_info(frame: BytesLike, plan: Plan | None = None) -> FrameInfo:
    """Read a frame's header. A short frame is read with its plan.

    ::

        >>> codecs.frame_info(frame)
        FrameInfo(dtype='float32', shape=(3, 224, 224), chain='palette[channel] | predict | entropy', ...)
    """
    return _info(frame, NO_PLANS if plan is None else plan.handle, 0)


def _info(frame: BytesLike, plans: Any, number: int) -> FrameInfo:
    answer = _header(frame, plans, number)
    dtype = BY_CODE[answer["dtype"]]
    return FrameInfo(
        dtype=dtype.name,
        shape=answer["shape"],
        chain=_chain(answer),
        plan_hash=answer["plan_hash"],
        nbytes=answer["nbytes"],
        size=memoryview(frame).nbytes,
        blocks=answer["blocks"],
        version=answer["version"],
        payload_offset=answer["header_size"],
    )


# Names in the words of a plan, and the plane modes that mean them.
_CODERS = {"entropy": (2,), "zstd": (3, 5), "lz4": (4,)}


def _planes_of(header: dict[str, Any]) -> int:
    """Planes of a block, as far as the header shows their modes."""
    if header["predict"] in (1, 3):
        geometry = header["image"][0]
        channels = 1 if geometry == 0 else header["shape"][-3 if geometry == 1 else -1]
        maps = 2 if header["predict"] == 3 else 0
        return int(channels * (header["bits"] // 8)) + maps
    return max(1, int(header["bits"]) // 8) if header["planes"] else 1


def _chain(header: dict[str, Any]) -> str:
    """The header's chain in the words of a plan."""
    axis = header["palette"][1]
    value = ["", "narrow", "palette" if axis == 255 else "palette[channel]"][header["value"]]
    predict = ["", "predict", "predict[delta]", "predict[mixed]"][header["predict"]]
    planes = ["", "planes", "planes"][header["planes"]]
    planned = header["modes"][: _planes_of(header)]
    coder = next((name for name, modes in _CODERS.items() if any(mode in planned for mode in modes)), "raw")
    return " | ".join(word for word in (value, predict, planes, coder) if word)


def decode(
    frame: BytesLike,
    out: Array | None = None,
    *,
    plans: Plan | Iterable[Plan] | None = None,
    normalize: Normalize | None = None,
    threads: int = 1,
    limit: int | None = None,
) -> Array:
    """The array of a frame, checked against its checksums.

    ::

        array = codecs.decode(frame)
        codecs.decode(frame, out=batch[i])        # into memory used before: new memory often costs more than decoding

    ``plans`` are looked at if the frame names one; a short frame, which names none, is read with the one plan that is
    given. ``limit`` is how many bytes may be allocated (default: the
    machine's memory). After a FormatError the contents of ``out`` are undefined. dtypes that NumPy lacks come back as
    unsigned integers; ``frame_info`` names them.
    """
    limit = _limit(limit)
    if out is None:
        answer = _header(frame, plans.handle if isinstance(plans, Plan) else NO_PLANS)
        dtype = BY_CODE[answer["dtype"]].numpy
        nbytes = answer["nbytes"]
        if normalize is not None:
            dtype = np.dtype("uint16" if normalize.output(None) == "bfloat16" else normalize.output(None))
            nbytes *= dtype.itemsize
        if nbytes > limit:
            raise_if_refused((0, 26, "the array's size", nbytes, limit, 0, -1))
        out = np.empty(answer["shape"], dtype)
    decode_into([frame], [out], threads, plans=plans, normalize=normalize, limit=limit)
    return out


def decode_into(
    frames: Sequence[BytesLike],
    outs: Sequence[Array],
    threads: int | None = None,
    *,
    plans: Plan | Iterable[Plan] | None = None,
    normalize: Normalize | None = None,
    limit: int | None = None,
) -> None:
    """Decode a batch in one native call without the GIL, each frame into its array.

    ::

        batch = np.empty((64, 3, 224, 224), np.float32)
        codecs.decode_into(frames, list(batch))

    The arrays must have the frames' shapes and be C-contiguous, as rows of a batch are; their dtype must be the
    frame's, or its bits. ``threads``: default all cores of this process.
    """
    if len(frames) != len(outs):
        raise UsageError(f"{len(frames)} frames but {len(outs)} arrays to decode into")
    given = (plans,) if isinstance(plans, Plan) else tuple(plans or ())
    if not all(isinstance(one, Plan) for one in given):
        raise UsageError("plans is a Plan, or several; of a file's text make one with Plan.from_json")
    plans = given[0].handle if len(given) == 1 else plan_set(one.native() for one in given)
    number = 0 if len(given) == 1 else NO_PLAN
    decode_with(plans, [(frame, number) for frame in frames], outs, threads, normalize=normalize, limit=limit)


def decode_with(
    plans: Any,
    numbered: Sequence[tuple[BytesLike, int]],
    outs: Sequence[Array],
    threads: int | None = None,
    *,
    normalize: Normalize | None = None,
    limit: int | None = None,
) -> None:
    """Decode frames as `decode_into` does; each comes with the number of the plan in the set that it is read with."""
    frames = [frame for frame, _ in numbered]
    for frame in frames:
        _check_contiguous(frame)
    for i, out in enumerate(outs):
        if not isinstance(out, np.ndarray) or not out.dtype.isnative or not _accepted(out.dtype):
            found = f"of dtype {out.dtype.str}" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
            raise UsageError(
                f"out {i} is {found}: decode into NumPy arrays of plain numbers in this machine's byte order"
            )
        if not out.flags.c_contiguous or not out.flags.writeable:
            state = "read-only" if not out.flags.writeable else "not C-contiguous"
            raise UsageError(f"out {i} is {state}: decode into a writable contiguous array and copy from there")
    finish = None
    if normalize is not None and outs:
        if len({out.dtype for out in outs}) > 1:
            raise UsageError("normalize: all outs must have one dtype")
        finish = normalize.native(normalize.output(outs[0].dtype))
    answer = _native.decode_batch(
        tuple(frames),
        tuple(out if out.dtype.isbuiltin == 1 else out.view(f"u{out.itemsize}") for out in outs),
        struct.pack(f"{len(outs)}I", *[_ANY if finish else _accepted(out.dtype) for out in outs]),
        plans,
        struct.pack(f"{len(outs)}I", *[number for _, number in numbered]),
        finish,
        _threads(threads),
        _limit(limit),
    )
    if answer is not None and answer[1] in (_OUT_SHAPE, _OUT_DTYPE):
        _refuse_out(answer[0], _info(frames[answer[0]], plans, numbered[answer[0]][1]), outs[answer[0]], normalize)
    if answer is not None and answer[1] == _BAD_CALL and normalize is not None:
        _refuse_normalize(answer[0], _info(frames[answer[0]], plans, numbered[answer[0]][1]), normalize)
    raise_if_refused(answer, item=0 if len(frames) > 1 else None)


_ANY = (1 << len(BY_CODE)) - 1


@cache
def _accepted(dtype: "np.dtype[np.generic]") -> int:
    """The dtypes whose items an array of this one may take, a bit each: itself; unsigned integers take any bits."""
    return sum(
        1 << kind.code
        for kind in BY_CODE
        if kind.name == dtype.name or (kind.itemsize == dtype.itemsize and (dtype.kind == "u" or kind.numpy == dtype))
    )


def _refuse_out(item: int, info: FrameInfo, out: Array, normalize: Normalize | None) -> None:
    wanted = DTYPES[info.dtype if normalize is None else normalize.output(out.dtype)].carrier
    raise UsageError(
        f"out {item} is {out.dtype} of shape {out.shape}, but the frame holds {info.dtype} of shape {info.shape}: "
        f"decode into np.empty({info.shape}, {wanted!r})"
    )


def _refuse_normalize(item: int, info: FrameInfo, normalize: Normalize) -> None:
    raise UsageError(
        f"normalize: frame {item} holds {info.dtype} of shape {info.shape}, but a uint8 array is needed, with "
        f"{len(normalize.mean)} channels on axis {normalize.axis}"
    )
