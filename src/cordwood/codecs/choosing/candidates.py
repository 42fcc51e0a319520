"""The chains that are worth a trial: those that a goal and some arrays suggest, and those that other data would need.

The value stage comes first and follows from the data: a palette if there are few values, else narrow for integers. Then
the prediction that gives the fewest bytes with the goal's coder is found, then the coder.
"""

from collections.abc import Sequence
from dataclasses import replace

from cordwood.codecs.choosing.trial import Stages, Trial, code_width
from cordwood.codecs.dtypes import Array, DType
from cordwood.codecs.plan import Goal
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd

_WORTH_A_TABLE = 16384  # bytes


def try_all(trial: Trial, samples: Sequence[Array], levels: tuple[Palette, bytes] | None) -> None:
    """Try the chains that the goal and these arrays suggest, those with the palette among them."""
    dtype, goal = trial.dtype, trial.goal
    value: Stages = ()
    palette, part = levels or (None, b"")
    if palette is not None:
        trial.palettes[palette] = part
        value = (palette,)
    elif dtype.kind in ("bool", "integer"):
        value = (Narrow(),)

    apart: Stages = (Planes(),) if palette is None and dtype.itemsize > 1 else ()
    trial.consider((*value, Raw()))
    if value and goal == "fast":
        trial.consider((Raw(),))
    if goal == "fast":
        # Most codes stay as they are, but what a table alone makes a fifth smaller is worth the look-ups. A small array
        # brings a table that has to be built first: it must gain more.
        if value:
            saving = 0.2 if min(array.nbytes for array in samples) >= _WORTH_A_TABLE else 0.75
            trial.consider((*value, *apart, Entropy("huffman", max_tables=1, saving=saving)))
        trial.consider((Lz4(),))
        if dtype.itemsize > 1:
            trial.consider((Planes(), Lz4()))
        return

    entropy = (
        Entropy("ans", tile=8, max_tables=8, saving=0.005)
        if goal == "small"
        else Entropy("huffman", tile=16, max_tables=8)
    )
    best: Stages = ()
    fewest = 0.0
    for layout in _layouts(samples, dtype, value, goal):
        if trial.is_menu and value and not set(value) & set(layout) and _has_short_codes(palette, dtype):
            continue
        mixed = any(isinstance(stage, Predict) and stage.kind == "mixed" for stage in layout)
        size = trial.consider((*layout, replace(entropy, max_tables=6) if mixed else entropy)).sizes.sum()
        if not fewest or size < fewest:
            fewest, best = size, layout
    whole = tuple(stage for stage in best if not isinstance(stage, Planes | Predict))
    layouts = [best, whole, (), (Narrow(),) if dtype.kind in ("bool", "integer") else ()]
    if trial.is_menu and _has_short_codes(palette, dtype):
        layouts = [best, whole]
    if trial.is_menu and dtype.itemsize == 1:
        layouts = [best, ()]
        if any(_has_few_bits(array) for array in samples):  # codes of bytes are bytes else
            layouts.append(value)
    for layout in dict.fromkeys(layouts):
        size = trial.consider((*layout, Zstd(3))).sizes.sum()
        if goal == "small" and size < 1.3 * fewest:  # the slow levels are tried only where they may win
            trial.consider((*layout, Zstd(19)))
    if goal == "small":
        trial.consider((*best, replace(entropy, or_zstd=True)))


def for_other_data(samples: Sequence[Array], dtype: DType, goal: Goal) -> list[Stages]:
    """Chains for data of other kinds than the sample: constants and masks, noise, ascending integers, floats with and
    without levels.
    """
    integers = dtype.kind in ("bool", "integer")
    value: Stages = (Narrow(),) if integers else ()
    if goal == "fast":
        return [(*value, Raw()), (Lz4(),)]
    entropy = (
        Entropy("ans", tile=8, max_tables=8, saving=0.005)
        if goal == "small"
        else Entropy("huffman", tile=16, max_tables=8)
    )
    layout: Stages = (Planes(rotated=dtype.kind != "other"),) if dtype.itemsize > 1 else ()
    if integers:
        layout = (Narrow(pack_bits=False, align_top=dtype.itemsize > 1), *((Planes(),) if dtype.itemsize > 1 else ()))
    found: list[Stages] = [(*value, Raw()), (*value, Zstd(3)), (*layout, entropy)]
    axis = -3 if min(array.ndim for array in samples) >= 3 else None
    level: Stages = (Palette(axis),) if dtype.kind == "float" and dtype.itemsize > 1 else ()
    if level:
        found.append((*level, entropy))
    if integers or level:
        first: Stages = level or (Narrow(pack_bits=False),)
        apart: Stages = (Planes(),) if dtype.itemsize > 1 and integers else ()
        ascending = [Predict("delta")] if integers and dtype.itemsize > 1 else []
        found += [(*first, predict, *apart, entropy) for predict in [*ascending, *_predictions(samples)[:2]]]
    return found


def _layouts(samples: Sequence[Array], dtype: DType, value: Stages, goal: Goal) -> list[Stages]:
    """Value, prediction and planes worth trying before the entropy coder."""
    palette = value[0] if value and isinstance(value[0], Palette) else None
    width = code_width(samples, dtype, value)
    apart: Stages = (Planes(),) if width > 1 else ()
    layouts: list[Stages] = []
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
        if goal == "small" and width == 1:
            layouts += [(*first, predict) for predict in _mixed(samples)]
    return layouts


def _has_short_codes(palette: Palette | None, dtype: DType) -> bool:
    """Whether codes that need nothing in the frame are so much shorter than elements that these are not worth a trial.

    A menu has chains for elements anyway, see `for_other_data`.
    """
    return palette is not None and palette.source != "frame" and 4 * palette.bits <= 8 * dtype.itemsize


def _has_few_bits(array: Array) -> bool:
    """Whether narrow makes less than bytes of an array of bytes."""
    return int(array.max()) - int(array.min()) <= 1


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
    if found and all(shape[-3] in (3, 4) for shape in shapes):
        return found  # the channels one by one: as rows of one tall image they are no smaller
    if all(len(shape) >= 2 and shape[-2] >= 8 and shape[-1] >= 8 for shape in shapes):
        found.append(Predict("med", "hw"))
    return found


def _mixed(samples: Sequence[Array]) -> list[Predict]:
    """Mixed predictions for what med can predict; of three channels also with each against the one before."""
    found = [replace(one, kind="mixed") for one in _predictions(samples)]
    return list(dict.fromkeys([*found, *(replace(one, color="previous") for one in found if one.color == "green")]))
