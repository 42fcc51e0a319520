"""Chooses a plan: tries candidates on a bounded sample of the arrays, and compares their sizes and fixed costs.

The value stage comes first and follows from the data: a palette if there are few values, else narrow for integers. Then
the prediction that gives the fewest bytes with the goal's coder is chosen, then the coder.

The cost of decoding is a fixed number per stage, never a measurement, so the same arrays give the same plan on every
machine. It stands for nanoseconds per byte of the decoded array, in round figures from profiles on one server core;
slow zstd levels cost more, because they slow the writer down. Only the ratios between the numbers matter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from cordwood.codecs.assets import Assets, varint
from cordwood.codecs.dtypes import DTYPES, Array, DType, dtype_of, plain
from cordwood.codecs.formula import fit
from cordwood.codecs.plan import GOALS, Goal, Plan
from cordwood.codecs.sample import sample
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import CODERS, Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.common.arguments import one_of
from cordwood.errors import UsageError
from cordwood.native import _native

# How many bytes (as a part of the array) a nanosecond for each byte is worth.
WEIGHT = {"small": 0.002, "balanced": 0.03, "fast": 0.8, "raw": 1.0}


def cost(stages: Sequence[Stage], code_share: float) -> float:
    """Nanoseconds a byte of the array; `code_share` is the codes' size as a part of the array's."""
    total = 0.05
    for stage in stages:
        match stage:
            case Narrow() | Palette():
                total += 0.05
            case Predict(kind="med"):
                total += 0.15 * code_share
            case Predict():
                total += 0.5 * code_share
            case Planes():
                total += 0.15
            case Entropy(saving=saving) if saving >= 0.1:
                total += 0.06 * code_share  # few planes are coded at all
            case Entropy(coder="huffman"):
                total += 0.6 * code_share
            case Entropy():
                total += 1.2 * code_share
            case Zstd(level=level):
                total += (1.2 if level < 10 else 2.0) * code_share  # the slow levels cost the writer, not the reader
            case Lz4():
                total += 0.4 * code_share
            case Raw():
                total += 0.05 * code_share
    return total


_DICTIONARY_ROOM = 16384
_LOOK = 8192  # values
_WORTH_A_TABLE = 16384  # bytes


def plan(
    arrays: Iterable[Array] | Array, goal: Goal = "balanced", *, dtype: str | None = None, own: bool = False
) -> Plan:
    """Choose how arrays like these are best encoded.

    ::

        p = codecs.plan(images[:16], "small")
        frames = [codecs.encode(image, p) for image in images]

    Goals: ``small`` (fewest bytes), ``balanced``, ``fast`` (to read), ``raw``. Frames need nothing but themselves to
    be read, unless ``own``: then the plan keeps palettes, tables and dictionaries, frames are smaller (much, when
    arrays are small), and ``decode`` must be given the plan.
    """
    one_of("goal", goal, GOALS)
    listed = [arrays] if isinstance(arrays, np.ndarray) else [np.asarray(array) for array in arrays]
    if not listed:
        raise UsageError("a plan needs at least one array to look at")
    kinds = {dtype_of(array, dtype).name for array in listed}
    if len(kinds) > 1:
        raise UsageError(
            f"one plan serves one dtype, but these arrays have {', '.join(sorted(kinds))}: make a plan for each"
        )
    kind = DTYPES[kinds.pop()]
    if goal == "raw":
        return Plan(goal, kind.name, (Raw(),))
    samples = [array for array in sample([plain(array, kind) for array in listed]) if array.size]
    if not samples:
        return Plan(goal, kind.name, (Raw(),))
    return _choose(samples, kind, goal, own)


def _choose(samples: Sequence[Array], dtype: DType, goal: str, own: bool) -> Plan:
    chosen: list[tuple[float, int, Plan]] = []

    def share(stages: tuple[Stage, ...]) -> float:
        return _code_width(samples, dtype, stages) / dtype.itemsize

    def consider(stages: tuple[Stage, ...], assets: Assets | None = None) -> tuple[float, int]:
        candidate = Plan(goal, dtype.name, stages, assets or Assets())
        size = _encoded_size(samples, candidate)
        score = size / sum(array.nbytes for array in samples) + WEIGHT[goal] * cost(stages, share(stages))
        chosen.append((score, len(chosen), candidate))
        return score, size

    palette, palette_assets = _palette(samples, dtype, own)
    value: tuple[Stage, ...] = ()
    if palette is not None:
        value = (palette,)
    elif dtype.kind in ("bool", "integer"):
        value = (Narrow(),)

    apart: tuple[Stage, ...] = (Planes(),) if palette is None and dtype.itemsize > 1 else ()
    consider((*value, Raw()), palette_assets)
    if value and goal == "fast":
        consider((Raw(),))
    if goal == "fast":
        # Most codes stay as they are, but what a table alone makes a fifth smaller is worth the look-ups. A small array
        # brings a table that has to be built first: it must gain more.
        if value:
            saving = 0.2 if min(array.nbytes for array in samples) >= _WORTH_A_TABLE else 0.75
            consider((*value, *apart, Entropy("huffman", max_tables=1, saving=saving)), palette_assets)
        consider((Lz4(),))
        if dtype.itemsize > 1:
            consider((Planes(), Lz4()))
        return min(chosen)[2]

    entropy = (
        Entropy("ans", tile=8, max_tables=8, saving=0.005)
        if goal == "small"
        else Entropy("huffman", tile=16, max_tables=8)
    )
    best: tuple[Stage, ...] = ()
    fewest = 0
    for layout in _layouts(samples, dtype, value):
        _, size = consider((*layout, entropy), palette_assets)
        if not fewest or size < fewest:
            fewest, best = size, layout
    whole = tuple(stage for stage in best if not isinstance(stage, Planes | Predict))
    for layout in dict.fromkeys([best, whole, (), (Narrow(),) if dtype.kind in ("bool", "integer") else ()]):
        layout_assets = palette_assets if palette in layout else None
        _, size = consider((*layout, Zstd(3)), layout_assets)
        if goal == "small" and size < 1.3 * fewest:  # the slow levels are tried only where they may win
            consider((*layout, Zstd(19)), layout_assets)
    if goal == "small":
        consider((*best, replace(entropy, or_zstd=True)), palette_assets)
    winner = min(chosen)[2]
    return _with_assets(winner, samples) if own else winner


def _palette(samples: Sequence[Array], dtype: DType, own: bool) -> tuple[Palette | None, Assets | None]:
    """The palette stage that these floats can have, and the assets that hold it if the plan shall own it."""
    if dtype.kind != "float":
        return None, None
    ranks = {array.ndim for array in samples}
    axes = [-3, -1] if min(ranks) >= 3 else []
    for axis in (*axes, None):
        counts = {array.shape[axis] if axis is not None else 1 for array in samples}
        if len(counts) != 1 or not 1 <= next(iter(counts)) <= 64:
            continue
        for bits in (8,) if axis is not None or dtype.itemsize == 2 else (8, 16):
            if bits == 16 and _hardly_repeats(samples):
                continue
            values = _distinct(samples, dtype, axis, next(iter(counts)), bits)
            if values is None:
                continue
            found = sum(map(len, values))
            if bits == 16 and found > _most_worth(samples):
                continue
            if dtype.itemsize == 2 and found * 2 > sum(array.size for array in samples):
                continue  # values that hardly repeat are no levels, and looking for a formula takes long
            formula = fit(values, dtype) if bits == 8 else None
            if formula is not None:
                return Palette(axis, bits, "formula", formula), None
            if own and len(ranks) == 1:
                return Palette(axis, bits, "plan"), _palette_assets(values, dtype, axis, bits, ranks.pop())
            return Palette(axis, bits, "frame"), None
    return None, None


def _most_worth(samples: Sequence[Array]) -> float:
    """Values that a palette of 16-bit codes may have: in the frame it must pay for itself."""
    return sum(array.size for array in samples) / len(samples) / 8


def _hardly_repeats(samples: Sequence[Array]) -> bool:
    """Whether a look at the beginning shows already that there are too many values: counting all takes long."""
    most = _most_worth(samples)
    beginning = samples[0].reshape(-1)[: 2 * int(most) + 16]
    return most < _LOOK and len(np.unique(beginning.view(f"u{beginning.itemsize}"))) > most


def _distinct(samples: Sequence[Array], dtype: DType, axis: int | None, palettes: int, bits: int) -> list[Array] | None:
    """The values of every palette over all samples, in numeric order, or None if there are too many."""
    gathered: list[list[Array]] = [[] for _ in range(palettes)]
    for array in samples:
        inner = int(np.prod(array.shape[axis:][1:])) if axis is not None else array.size
        answer = _native.distinct(array, dtype.itemsize, palettes, max(inner, 1), bits)
        if answer is None:
            return None
        for values, one in zip(gathered, answer, strict=True):
            values.append(np.frombuffer(one, dtype.numpy))
    if len(samples) == 1:
        return [values[0] for values in gathered]
    joined = []
    for values in gathered:
        answer = _native.distinct(np.concatenate(values), dtype.itemsize, 1, sum(map(len, values)) or 1, bits)
        if answer is None:
            return None
        joined.append(np.frombuffer(answer[0], dtype.numpy))
    return joined


def _palette_assets(values: Sequence[Array], dtype: DType, axis: int | None, bits: int, rank: int) -> Assets:
    head = bytes([dtype.code, bits, 255 if axis is None else rank + axis]) + varint(len(values))
    return Assets.of(palette=head + b"".join(varint(len(one)) + one.tobytes() for one in values))


def _code_width(samples: Sequence[Array], dtype: DType, stages: tuple[Stage, ...]) -> int:
    """Bytes of a code after the value stage, if these stages begin with one."""
    match stages[:1]:
        case (Palette(bits=bits),):
            return bits // 8
        case (Narrow(),):
            spread = max(int(array.max()) - int(array.min()) for array in samples)
            return min(
                dtype.itemsize, 1 if spread < 1 << 8 else 2 if spread < 1 << 16 else 4 if spread < 1 << 32 else 8
            )
        case _:
            return dtype.itemsize


def _layouts(samples: Sequence[Array], dtype: DType, value: tuple[Stage, ...]) -> list[tuple[Stage, ...]]:
    """Value, prediction and planes worth trying before the entropy coder."""
    palette = value[0] if value and isinstance(value[0], Palette) else None
    width = _code_width(samples, dtype, value)
    apart: tuple[Stage, ...] = (Planes(),) if width > 1 else ()
    layouts: list[tuple[Stage, ...]] = []
    if palette:
        layouts += [(*value, *apart), (Planes(rotated=True),)]
    elif dtype.kind in ("bool", "integer"):
        lasts = {array.shape[-1] if array.ndim > 1 else 1 for array in samples}
        lags = {1, *lasts} if len(lasts) == 1 and 1 <= max(lasts) <= 32 else {1}  # x, y, z: each follows its own
        layouts.append((Narrow(pack_bits=False, align_top=width > 1), *apart))
        layouts += [(Narrow(pack_bits=False), Predict("delta", lag=lag), *apart) for lag in sorted(lags)]
    else:
        layouts.append((Planes(rotated=dtype.kind != "other"),) if dtype.itemsize > 1 else ())
    if width <= 2 and (palette or dtype.kind in ("bool", "integer")):
        first = value[:1] if palette else (Narrow(pack_bits=False),)
        layouts += [(*first, predict, *apart) for predict in _predictions(samples)]
    return layouts


def _predictions(samples: Sequence[Array]) -> list[Predict]:
    """Geometries that the shapes allow: rows and columns of at least eight."""
    shapes = {array.shape for array in samples}
    found = []
    if all(len(shape) >= 3 and shape[-3] > 1 and shape[-2] >= 8 and shape[-1] >= 8 for shape in shapes):
        color = "green" if all(shape[-3] in (3, 4) for shape in shapes) else "previous"
        found += [Predict("med", "chw", color), Predict("med", "chw")]
    if all(len(shape) >= 3 and shape[-3] >= 8 and shape[-2] >= 8 and 2 <= shape[-1] <= 32 for shape in shapes):
        color = "green" if all(shape[-1] in (3, 4) for shape in shapes) else "previous"
        found += [Predict("med", "hwc", color), Predict("med", "hwc")]
    if all(len(shape) >= 2 and shape[-2] >= 8 and shape[-1] >= 8 for shape in shapes):
        found.append(Predict("med", "hw"))
    return found


def _with_assets(winner: Plan, samples: Sequence[Array]) -> Plan:
    """The plan with tables or a dictionary of its own, where the samples get smaller by it."""
    coder = winner.stages[-1]
    kept = winner.assets.encoded[6:] if winner.assets.encoded else b""
    palette = kept[1 : len(kept) - 2] if kept else b""
    if isinstance(coder, Entropy):
        inputs = tuple((array, array.shape, winner.settings(array.ndim), winner.formula) for array in samples)
        if winner.palette and winner.palette.source == "plan":
            # learning needs codes, not the plan's palette: a palette in the frame gives nearly the same
            plain_palette = replace(winner.palette, source="frame")
            stand_in = replace(winner, stages=(plain_palette, *winner.stages[1:]), assets=Assets())
            inputs = tuple((array, array.shape, stand_in.settings(array.ndim), b"") for array in samples)
        tables = _native.learn_tables(inputs, CODERS[coder.coder], coder.max_tables)
        if not isinstance(tables, bytes):  # a sample's own values do not make a palette: no tables, then
            return winner
        owning = replace(winner, assets=Assets.of(palette=palette, tables=tables))
    elif isinstance(coder, Zstd):
        pieces = [array.tobytes() for array in samples]
        dictionary = _native.train_dictionary(b"".join(pieces), tuple(map(len, pieces)), _DICTIONARY_ROOM)
        owning = replace(winner, assets=Assets.of(palette=palette, dictionary=dictionary))
    else:
        return winner
    return owning if _encoded_size(samples, owning) < _encoded_size(samples, winner) else winner


def _encoded_size(samples: Sequence[Array], candidate: Plan) -> int:
    total = 0
    for array in samples:
        answer = _native.encode(
            array, array.shape, candidate.settings(array.ndim), candidate.formula, candidate.assets.native, 1
        )
        # a candidate that cannot take a sample is worth what the array is
        total += len(answer) if isinstance(answer, bytes) else array.nbytes + 64
    return total
