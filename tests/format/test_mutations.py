"""Damaged frames: FormatError and nothing else, and the two readers agree on which are still good.

Most of the damage gets past the checksums (see mutate.py), so that what lies behind them is tested too.
"""

import numpy as np
import pytest

from cordwood import codecs
from cordwood.errors import FormatError
from tests.format.support import craft
from tests.format.support.craft import Array
from tests.format.support.formulas import FORMULAS
from tests.format.support.mutate import Mutator
from tests.format.support.readers import native_read, plan_of, reader, same_bits
from tests.format.support.samples import SAMPLES

CORPUS = list((SAMPLES | FORMULAS).values())
BLOCK_SIZES = [[size for size, _ in reader.read_header(c.frame, c.owned)[0].table] for c in CORPUS]
SMALL = 2**18  # bytes of an array that the plain reader is asked for
FORMULA_NANS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def native_answer(frame: bytes, assets: bytes | None) -> Array | int:
    """The array, or the reason's number. Any other exception than FormatError fails the test."""
    try:
        return native_read(frame, assets, limit=SMALL)[0]
    except FormatError as error:
        return error.reason


def plain_answer(frame: bytes, assets: bytes | None) -> Array | int:
    owned = {} if assets is None else {craft.hash_of(assets): assets}
    try:
        array: Array = reader.read(frame, owned)[0]
    except reader.Reject as reject:
        return int(reject.reason)
    return array


def same_but_for_nans(a: Array, b: Array, dtype: str) -> bool:
    """As same_bits, but a NaN is a NaN: the page does not say which one a formula gives."""
    if same_bits(a, b) or dtype not in FORMULA_NANS:
        return same_bits(a, b)
    exponent, fraction = FORMULA_NANS[dtype]
    bits = [x.reshape(-1).view(f"u{x.itemsize}") for x in (a, b)]
    infinity = ((1 << exponent) - 1) << fraction
    magnitude = (1 << (exponent + fraction)) - 1
    both = ((bits[0] & magnitude) > infinity) & ((bits[1] & magnitude) > infinity)
    return a.shape == b.shape and bool(np.all((bits[0] == bits[1]) | both))


def assert_agreement(frame: bytes, assets: bytes | None) -> bool:
    """True if the frame is still good."""
    native = native_answer(frame, assets)
    if isinstance(native, int) and native == 26:
        return False  # too large for this test, and so for the plain reader
    plain = plain_answer(frame, assets)
    if isinstance(native, int) or isinstance(plain, int):
        assert isinstance(native, int), f"only the plain reader rejects it, for reason {plain}"
        assert isinstance(plain, int), f"only the native reader rejects it, for reason {native}"
        return False
    assert same_but_for_nans(native, plain, codecs.frame_info(frame).dtype)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_damaged_frames(seed: int) -> None:
    mutator = Mutator(seed)
    good = 0
    for _ in range(600):
        place = mutator.random.randrange(len(CORPUS))
        other = mutator.random.choice(CORPUS).frame
        crafted = CORPUS[place]
        good += assert_agreement(mutator.mutate(crafted.frame, BLOCK_SIZES[place], other), crafted.assets)
    assert 10 < good < 300  # damage must neither be harmless nor all caught by one early check


def test_damaged_assets() -> None:
    mutator = Mutator(99)
    owners = [c for c in CORPUS if c.assets is not None]
    good = 0
    for _ in range(600):
        crafted = mutator.random.choice(owners)
        other = mutator.random.choice(owners).assets
        assert crafted.assets is not None
        assert other is not None
        frame, assets = mutator.mutate_assets(crafted.frame, crafted.assets, other)
        if assets:
            good += assert_agreement(frame, assets)
    assert 10 < good < 300


def test_every_truncation() -> None:
    for crafted in CORPUS[:: len(CORPUS) // 12]:
        for end in range(0, len(crafted.frame), 1 + len(crafted.frame) // 200):
            assert isinstance(native_answer(crafted.frame[:end], crafted.assets), int)


def test_every_bit_of_a_frame_counts() -> None:
    """Checksums cover every byte: no flipped bit goes unnoticed."""
    for name in ("blocks", "padded", "med-chw-color1-uint8-planes0", "huffman-plan"):
        crafted = SAMPLES[name]
        for at in range(8 * len(crafted.frame)):
            flipped = bytearray(crafted.frame)
            flipped[at // 8] ^= 1 << at % 8
            assert isinstance(native_answer(bytes(flipped), crafted.assets), int), (name, at)


def test_batch_names_the_damaged_frame() -> None:
    crafted = [SAMPLES[name] for name in ("blocks", "ans-1000", "mode-zstd")]
    frames = [c.frame for c in crafted]
    frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])
    outs = [np.empty_like(c.array) for c in crafted]
    with pytest.raises(FormatError, match="frame 1") as caught:
        codecs.decode_into(frames, outs)
    assert caught.value.reason == 15


def test_another_plan_is_not_used() -> None:
    crafted = SAMPLES["palette-plan-float32"]
    assert crafted.assets is not None
    with pytest.raises(FormatError) as caught:
        codecs.decode(crafted.frame, plans=plan_of(craft.assets(dictionary=b"another")))
    assert caught.value.reason == 16
    several = [plan_of(craft.assets(dictionary=b"another")), plan_of(crafted.assets)]
    assert same_bits(codecs.decode(crafted.frame, plans=several), crafted.array)
