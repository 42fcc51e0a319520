"""Chooses a plan: tries chains on a bounded sample of the arrays, and compares their sizes and fixed costs.

A plan that may own things has a menu: the chain that is best for the sample as a whole, then those that make some of
the arrays smaller, and those that other data would need.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from cordwood.codecs.chain import Chain, Shape
from cordwood.codecs.choosing.candidates import for_other_data, try_all
from cordwood.codecs.choosing.owning import try_owning, with_tables
from cordwood.codecs.choosing.palettes import has_levels, palette_of
from cordwood.codecs.choosing.sample import sample
from cordwood.codecs.choosing.trial import Trial, Tried
from cordwood.codecs.dtypes import DTYPES, Array, DType, dtype_of, plain
from cordwood.codecs.plan import GOALS, Goal, Plan
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.raw import Raw
from cordwood.common.arguments import one_of
from cordwood.errors import UsageError

_SMALL = 16384  # bytes of arrays that have short frames, and for which what a plan owns counts
_LARGE_FRAME = 32768  # bytes
_MOST_CHAINS = 6  # chosen for the sample; more make encoding slower
_WORTH_A_CHAIN = 0.002  # of the bytes of all samples
_SHORT_SIDE = 8  # images are at least as wide and high
_MOST_GROUPS = 3
_RARE = 16  # of less than one array, or byte, in so many, nothing is owned, and a group has no chains of its own


def plan(
    arrays: Iterable[Array] | Array, goal: Goal = "balanced", *, dtype: str | None = None, own: bool = False
) -> Plan:
    """Choose how arrays like these are best encoded.

    ::

        p = codecs.plan(images[:16], "small")
        frames = [codecs.encode(image, p) for image in images]

    Goals: ``small`` (fewest bytes), ``balanced``, ``fast`` (to read), ``raw``. Frames need nothing but themselves to
    be read, unless ``own``: then the plan keeps palettes, tables and dictionaries, and has several chains, of which
    each frame takes the best. Frames are smaller (much, when arrays are small or of several kinds), and ``decode`` must
    be given the plan.
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
    shape = _common_shape(listed) if own else None
    if goal == "raw":
        return Plan(goal, kind.name, (Chain((Raw(),)).with_short(kind.name, shape),), shape)
    samples = [array for array in sample([plain(array, kind) for array in listed], many=own) if array.size]
    if not samples:
        others = for_other_data(listed, kind, goal) if own else []
        chains = (Chain(stages).with_short(kind.name, shape) for stages in dict.fromkeys([(Raw(),), *others]))
        return Plan(goal, kind.name, tuple(chains), shape)
    if not own:
        trial = Trial(samples, kind, goal, None, is_menu=False)
        try_all(trial, samples, palette_of(samples, kind, own=False))
        return Plan(goal, kind.name, (trial.best().chain,))
    small = sum(0 < array.nbytes <= _SMALL for array in listed) * _RARE >= len(listed)
    mean = sum(array.nbytes for array in listed) / sum(array.size > 0 for array in listed)
    return _menu(samples, kind, goal, shape, has_small=small, mean=mean)


def _common_shape(arrays: Sequence[Array]) -> Shape | None:
    """The shape of all arrays, with None where they differ; None if they have not one number of dimensions."""
    if len({array.ndim for array in arrays}) > 1:
        return None
    sizes = (set(of_axis) for of_axis in zip(*(array.shape for array in arrays), strict=True))
    return tuple(found.pop() if len(found) == 1 else None for found in sizes)


def _menu(
    samples: Sequence[Array], dtype: DType, goal: Goal, shape: Shape | None, *, has_small: bool, mean: float
) -> Plan:
    """The chains from which each array of such kinds, of so many bytes on average, takes the one that suits it best."""
    trial = Trial(samples, dtype, goal, shape, is_menu=True)
    for alike in _groups(samples):
        levels = palette_of(alike, dtype, own=True)
        try_all(trial, alike, levels)
        if levels is None and dtype.kind == "float":  # some of the arrays may have levels
            _try_levels(trial, alike)
    if has_small:
        try_owning(trial, samples)
    chosen = _chosen(trial)
    kept = [one.chain for one in chosen]
    if not has_small:
        kept = [with_tables(one.chain, trial) if _needs_tables(one, trial, mean) else one.chain for one in chosen]
    there = [chain.stages for chain in kept if not chain.assets.encoded]
    others = [stages for stages in for_other_data(_groups(samples)[0], dtype, goal) if stages not in there]
    kept += [Chain(stages).with_short(dtype.name, shape) for stages in others]
    return Plan(goal, dtype.name, tuple(kept), shape)


def _needs_tables(tried: Tried, trial: Trial, mean: float) -> bool:
    """Whether tables of the plan's can matter: in a large frame, which has its own, they are hardly a hundredth."""
    size = mean * tried.sizes.sum() / trial.nbytes.sum()
    return not tried.chain.assets.encoded and size < _LARGE_FRAME


def _groups(samples: Sequence[Array]) -> list[list[Array]]:
    """Arrays of forms that stages tell apart, those of the most bytes first; of forms that are rare, none."""
    groups: dict[tuple[int, ...], list[Array]] = {}
    for array in samples:
        form = (array.ndim, *(min(size, _SHORT_SIDE) for size in array.shape[-3:]))
        groups.setdefault(form, []).append(array)
    sizes = [sum(array.nbytes for array in group) for group in groups.values()]
    ordered = sorted(zip(sizes, groups.values(), strict=True), key=lambda pair: -pair[0])
    found = [group for size, group in ordered[:_MOST_GROUPS] if size * _RARE >= sum(sizes)]
    return found or [list(samples)]


def _try_levels(trial: Trial, samples: Sequence[Array]) -> None:
    """Try palettes where only some of these arrays have few values."""
    best: list[Array] = []
    axis: int | None = None
    for one in (-3, -1, None) if samples[0].ndim >= 3 else (None,):
        alike = [array for array in samples if has_levels(array, trial.dtype, one)]
        if len(alike) > len(best):
            best, axis = alike, one
    if best:
        try_all(trial, best, palette_of(best, trial.dtype, own=True) or (Palette(axis), b""))


def _chosen(trial: Trial) -> list[Tried]:
    """The chains that make the sample smallest when each array takes its best one."""
    scores = np.stack([one.scores for one in trial.tried])
    taken = [int(scores.sum(axis=1).argmin())]
    lowest = scores[taken[0]]
    while len(taken) < _MOST_CHAINS:
        after = np.minimum(scores, lowest).sum(axis=1)
        best = int(after.argmin())
        if lowest.sum() - after[best] <= _WORTH_A_CHAIN * trial.tried[taken[0]].sizes.sum():
            break
        taken.append(best)
        lowest = np.minimum(lowest, scores[best])
    return [trial.tried[number] for number in taken]
