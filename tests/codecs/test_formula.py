"""formula: what people do to k is found, only if it is right to the last bit, and written as the page says."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import OPERATIONS, Formula, fit
from cordwood.native import _native
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.format.support import craft
from tests.format.support.readers import same_bits

CONSTANTS = {
    "ImageNet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "CLIP": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
    "CIFAR-10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "CIFAR-10, another": ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
    "CIFAR-100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "MNIST": ([0.1307], [0.3081]),
    "halves": ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
}
KINDS = ("float32", "float64", "float16", "bfloat16")


def as_kind(values: Array, kind: str) -> Array:
    if kind == "bfloat16":
        return definitions.to_bfloat16(values)
    return values.astype(kind)


def normalised(mean: float, std: float, kind: str) -> Array:
    """The palette of a channel: computed as torch does, in float64 only for float64."""
    work = "float64" if kind == "float64" else "float32"
    return as_kind(definitions.formula(256, [("/", 255.0), ("-", mean), ("/", std)], work), kind)


def in_order(values: Array) -> Array:
    """Distinct values from the lowest up, as a palette has them."""
    return definitions.palette(values)[0][0].view(values.dtype)


def image_of(palettes: list[Array], seed: int = 0) -> Array:
    """Every value of every palette, several times; somewhat smooth, as a photograph is."""
    noise = np.random.default_rng(seed).integers(0, 40, (len(palettes), 64, 64))
    rows = np.add.outer(np.arange(64), np.arange(64)) * 3 + noise
    return np.stack([palette[codes % len(palette)] for palette, codes in zip(palettes, rows, strict=True)])


def source_of(frame: bytes) -> int:
    """0: the palette is in the frame, 1: a formula, 2: the plan's; -1 without a palette."""
    header = _native.parse(frame, codecs.NO_PLANS, 0)
    assert isinstance(header, dict)
    return int(header["palette"][2]) if header["value"] == 2 else -1


def palettes_of(name: str, kind: str) -> list[Array]:
    return [normalised(mean, std, kind) for mean, std in zip(*CONSTANTS[name], strict=True)]


def all_differ(palettes: list[Array]) -> bool:
    """In bfloat16 two codes may have the same value; which of them it was cannot be told then."""
    return all(len(set(palette.tolist())) == 256 for palette in palettes)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in CONSTANTS for kind in KINDS if all_differ(palettes_of(name, kind))]
)
def test_constants_that_people_use_are_found(name: str, kind: str) -> None:
    palettes = palettes_of(name, kind)
    formula = fit(palettes, DTYPES[kind])
    assert formula is not None
    for channel, palette in enumerate(palettes):
        assert same_bits(formula.values(DTYPES[kind], channel), palette)
    image = image_of(palettes)
    frame = codecs.encode(image, "small", dtype=kind)
    assert source_of(frame) == 1
    assert same_bits(codecs.decode(frame), image)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_the_constants_are_those_that_were_written(name: str, kind: str) -> None:
    mean, std = CONSTANTS[name]
    formula = fit([normalised(m, s, kind) for m, s in zip(mean, std, strict=True)], DTYPES[kind])
    assert formula is not None
    assert [operation for operation, _ in formula.steps] == ["/", "-", "/"]
    work = np.dtype(kind).type
    found = [[work(x) for x in operands] for _, operands in formula.steps[1:]]
    expected = [[work(x) for x in (terms if len(set(terms)) > 1 else terms[:1])] for terms in (mean, std)]
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [[("/", 255.0)], [("/", 127.5), ("-", 1.0)]], ids=str)
def test_between_zero_and_one_or_minus_one_and_one(steps: list[tuple[str, float]], kind: str) -> None:
    work = "float64" if kind == "float64" else "float32"
    values = as_kind(definitions.formula(256, steps, work), kind)
    formula = fit([values], DTYPES[kind])
    assert formula is not None
    assert same_bits(formula.values(DTYPES[kind]), values)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    "steps",
    [
        [("*", 1 / 255)],
        [("*", 2 / 255), ("-", 1.0)],
        [("/", 256.0)],
        [("/", 128.0), ("-", 1.0)],
        [("*", 1.0)],
        [("-", 127.5), ("/", 127.5)],
        [("-", 123.675), ("/", 58.395)],
        [("-", 103.53), ("*", 0.017429)],
        [("*", 0.1), ("+", 3.0)],
    ],
    ids=str,
)
def test_what_else_people_do(steps: list[tuple[str, float]], kind: str) -> None:
    values = definitions.formula(256, steps, kind)
    formula = fit([values], DTYPES[kind])
    assert formula is not None
    assert same_bits(formula.values(DTYPES[kind]), values)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.02, 1.0)), min_size=1, max_size=4),
    st.sampled_from(["float32", "float64"]),
)
def test_many_digits_are_found_where_the_range_is_full(terms: list[tuple[float, float]], kind: str) -> None:
    palettes = [normalised(mean, std, kind) for mean, std in terms]
    formula = fit(palettes, DTYPES[kind])
    assert formula is not None
    for channel, palette in enumerate(palettes):
        assert same_bits(formula.values(DTYPES[kind], channel), palette)


def with_codes_missing(name: str, kind: str, present: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [palette[np.sort(rng.choice(256, present, replace=False))] for palette in palettes_of(name, kind)]


def assert_found(palettes: list[Array], kind: str) -> None:
    formula = fit(palettes, DTYPES[kind])
    assert formula is not None
    for channel, palette in enumerate(palettes):
        assert set(palette.tolist()) <= set(formula.values(DTYPES[kind], channel).tolist())
    image = image_of(palettes)
    frame = codecs.encode(image, "small")
    assert source_of(frame) == 1
    assert same_bits(codecs.decode(frame), image)


@settings(max_examples=100)
@given(
    st.sampled_from([name for name in CONSTANTS if name != "CLIP"]),
    st.integers(200, 255),
    st.integers(0, 999),
    st.sampled_from(["float32", "float64"]),
)
def test_codes_that_do_not_occur(name: str, present: int, seed: int, kind: str) -> None:
    assert_found(with_codes_missing(name, kind, present, seed), kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("present", [200, 230, 250, 255])
def test_codes_that_do_not_occur_with_constants_of_many_digits(present: int, kind: str) -> None:
    for seed in range(8):
        assert_found(with_codes_missing("CLIP", kind, present, seed), kind)


@settings(max_examples=100)
@given(st.integers(3, 256), st.integers(0, 9999), st.sampled_from(KINDS))
def test_whatever_is_found_is_right(present: int, seed: int, kind: str) -> None:
    """Few codes, many digits, numbers that are no line at all: exact or nothing."""
    rng = np.random.default_rng(seed)
    mean, std = rng.random(2).tolist()
    values = normalised(mean, std, kind)[np.sort(rng.choice(256, present, replace=False))]
    if seed % 3 == 0:
        values = as_kind(np.sort(rng.standard_normal(present)).astype(np.float32), kind)
    values = in_order(values)
    if len(values) < 3:
        return
    formula = fit([values], DTYPES[kind])
    if formula is not None:
        assert set(values.tolist()) <= set(formula.values(DTYPES[kind]).tolist())
    image = image_of([values])
    frame = codecs.encode(image, "small", dtype=kind)
    assert same_bits(codecs.decode(frame), image)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("code", [0, 1, 100, 254, 255])
@pytest.mark.parametrize("up", [True, False])
def test_a_near_miss_is_refused(name: str, code: int, up: bool) -> None:
    """One value a bit off: no formula gives it, the palette is in the frame, and everything comes back."""
    palettes = palettes_of(name, "float32")
    palettes[-1][code] = np.nextafter(palettes[-1][code], np.float32(np.inf if up else -np.inf))
    assert fit(palettes, DTYPES["float32"]) is None
    image = image_of(palettes)
    frame = codecs.encode(image, "small")
    assert source_of(frame) == 0
    assert same_bits(codecs.decode(frame), image)


@pytest.mark.parametrize("special", [np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45])
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_no_formula_gives(special: float, kind: str) -> None:
    palette = normalised(0.485, 0.229, kind)
    palette[7] = (
        as_kind(np.array([special], np.float32), kind)[0] if special == special else not_a_number(special, kind)
    )
    palettes = [palette, normalised(0.456, 0.224, kind)]
    assert fit([in_order(p) for p in palettes], DTYPES[kind]) is None
    image = image_of(palettes)
    frame = codecs.encode(image, "small", dtype=kind)
    assert source_of(frame) != 1
    assert same_bits(codecs.decode(frame), image)


def not_a_number(sign: float, kind: str) -> np.generic:
    if kind == "bfloat16":
        return np.uint16(0xFFC0 if np.signbit(sign) else 0x7FC0)
    result: np.generic = np.dtype(kind).type(np.copysign(np.nan, sign))
    return result


def test_a_plan_with_a_formula_keeps_what_the_formula_does_not_give() -> None:
    clean = image_of(palettes_of("ImageNet", "float32"))
    plan = codecs.plan(clean, "small")
    assert plan.chains[0].palette is not None
    assert plan.chains[0].palette.source == "formula"
    for special in (np.nan, np.inf, -0.0, 3.25):
        image = clean.copy()
        image[1, 5, 6] = special
        image[2, 7] = special
        frame = codecs.encode(image, plan)
        assert source_of(frame) != 1
        assert same_bits(codecs.decode(frame), image)


def test_too_few_or_too_many_values_have_no_formula() -> None:
    assert fit([np.array([0.0, 1.0], np.float32)], DTYPES["float32"]) is None
    assert fit([np.arange(300, dtype=np.float32)], DTYPES["float32"]) is None


@settings(max_examples=80)
@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.sampled_from("*/+-"), st.floats(-1e3, 1e3, width=32)), min_size=1, max_size=4),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(KINDS),
)
def test_values_are_the_definition_and_so_is_what_is_decoded(
    count: int, steps: list[tuple[str, float]], work: str, kind: str
) -> None:
    exact = definitions.formula(count, steps, work)
    if np.isnan(exact).any() or (kind == "bfloat16" and work == "float64"):
        return  # formulas never give NaN; that bfloat16 is rounded once is tested with the format
    with np.errstate(all="ignore"):
        expected = as_kind(exact, kind)
    formula = Formula(tuple((operation, (operand,)) for operation, operand in steps), work, count)
    assert same_bits(formula.values(DTYPES[kind]), expected)
    bits = 8 if count <= 256 else 16
    codes = np.arange(count, dtype=f"<u{bits // 8}")
    chain = craft.chain(bytes([2, bits, craft.WHOLE, 1]) + formula.to_bytes())
    assert same_bits(codecs.decode(craft.frame(kind, (count,), chain, [codes.tobytes()])), expected)


def test_bytes_are_those_of_the_page() -> None:
    formula = Formula((("/", (255.0,)), ("-", (0.5, 0.25)), ("*", (2.0,))), "float64", 300)
    expected = b"\xac\x02\x01\x03" + b"\x01\x00" + struct.pack("<d", 255) + b"\x03\x01" + struct.pack("<dd", 0.5, 0.25)
    assert formula.to_bytes() == expected + b"\x00\x00" + struct.pack("<d", 2)
    assert OPERATIONS == {"*": 0, "/": 1, "+": 2, "-": 3}
    assert str(formula) == "k / 255 - (0.5, 0.25) * 2"


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("slope", [1e-300, 1e-42, 1e-30, 1e-9, 1e9, 1e35, 1e300])
def test_values_very_close_or_very_far_apart(kind: str, slope: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        values = np.unique((np.arange(-40, 200) * slope).astype(kind))
    image = np.resize(values, (3, 40, 40))
    assert same_bits(codecs.decode(codecs.encode(image, "small")), image)
