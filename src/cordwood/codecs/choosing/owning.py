"""Chains with tables and dictionaries of their own, which are learnt from arrays like those to come."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cordwood.codecs.assets import Assets
from cordwood.codecs.chain import Chain
from cordwood.codecs.choosing.trial import Trial, Tried
from cordwood.codecs.dtypes import Array, DType
from cordwood.codecs.plan import Plan
from cordwood.codecs.stages.entropy import CODERS, Entropy
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.zstd import Zstd
from cordwood.native import _native

_DICTIONARY_ROOM = 16384
_TRAINING_BYTES = 1 << 19  # more make training slow, and dictionaries hardly better
_FEWEST_WITH_DICTIONARY = 8  # arrays


def try_owning(trial: Trial, samples: Sequence[Array]) -> None:
    """Try chains with tables and dictionaries of their own, which count where arrays are small."""
    for tried in list(trial.tried):
        coder = tried.chain.stages[-1]
        if isinstance(coder, Entropy):
            owning = with_tables(tried.chain, trial)
            if owning is not tried.chain:
                trial.add(owning)
        elif isinstance(coder, Zstd) and len(samples) >= _FEWEST_WITH_DICTIONARY:
            # A dictionary knows by heart what it was made of, so half of the arrays make one, and the others judge it.
            half = _with_dictionary(tried.chain, samples[::2], trial.dtype)
            whole = _with_dictionary(tried.chain, samples, trial.dtype)
            if half is None or whole is None:
                continue
            judged = trial.measured(half.with_short(trial.dtype.name, trial.shape))
            odd = np.arange(len(samples)) % 2 == 1
            gained = (tried.sizes - judged.sizes)[odd].sum() / max(tried.sizes[odd].sum(), 1.0)
            if gained > 0:
                sizes = np.where(odd, judged.sizes, tried.sizes * (1 - gained))
                scores = judged.scores - judged.sizes + sizes
                chain = whole.with_short(trial.dtype.name, trial.shape)
                trial.tried.append(Tried(chain, sizes, scores, judged.total))


def _with_dictionary(chain: Chain, samples: Sequence[Array], dtype: DType) -> Chain | None:
    """The chain with a dictionary that is trained on what its coder is given, if that is the arrays' bytes."""
    if any(isinstance(stage, Planes | Predict | Palette) for stage in chain.stages):
        return None
    pieces = [_narrowed(array) if len(chain.stages) > 1 else array.tobytes() for array in samples]
    # What is there twice or says nothing teaches nothing. The trainer judges what it learns on the last quarter: arrays
    # in the order of their source would mislead it.
    pieces = [piece for piece in dict.fromkeys(pieces) if piece.count(piece[:1]) < len(piece)]
    pieces.sort(key=lambda piece: hashlib.blake2b(piece, digest_size=8).digest())
    pieces = pieces[: max(_FEWEST_WITH_DICTIONARY, _TRAINING_BYTES * len(pieces) // max(1, sum(map(len, pieces))))]
    dictionary = _native.train_dictionary(b"".join(pieces), tuple(map(len, pieces)), _DICTIONARY_ROOM)
    return replace(chain, assets=Assets.of(dictionary=dictionary)) if dictionary else None


def _narrowed(array: Array) -> bytes:
    """What narrow gives the coder, but for codes of less than a byte."""
    low, high = int(array.min()), int(array.max())
    width = next(bits for bits in (8, 16, 32, 64) if high - low < 1 << bits)
    if width >= 8 * array.itemsize:
        return array.tobytes()
    # as unsigned numbers, which wrap around: those of 64 bits do not fit signed ones
    return (array.astype(np.uint64) - np.uint64(low % (1 << 64))).astype(f"u{width // 8}").tobytes()


def with_tables(chain: Chain, trial: Trial) -> Chain:
    """The chain with tables of its own, if it has a coder that takes them and the samples get smaller by it."""
    coder = chain.stages[-1]
    if not isinstance(coder, Entropy):
        return chain
    learner = Plan(trial.goal, trial.dtype.name, (chain,)).encoder(trial.samples[0].ndim, short=False, resorts=False)
    inputs = tuple((array, array.shape) for array in trial.samples if array.ndim == trial.samples[0].ndim)
    tables = _native.learn_tables(inputs, learner, CODERS[coder.coder], coder.max_tables)
    if not isinstance(tables, bytes):  # a sample's own values do not make a palette: no tables, then
        return chain
    owning = replace(chain, assets=trial.assets(chain.stages, tables)).with_short(trial.dtype.name, trial.shape)
    before = next(one for one in trial.tried if one.chain == chain)
    after = trial.measured(owning)
    return owning if after.sizes.sum() < before.sizes.sum() else chain
