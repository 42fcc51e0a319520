"""Valid frames crafted by hand, one for every feature of the format, small enough for the plain reader.

`SAMPLES` maps a name to a frame and what it holds. The tests of both readers, the mutations and the fuzzer draw on it.
"""

import math

import numpy as np

from tests.format.support import craft, craft_coding
from tests.format.support.craft import ANS, COMPLEX, DTYPES, HUFFMAN, Array, itemsize
from tests.format.support.craft_coding import (
    CODED,
    CONSTANT,
    ENTROPY,
    LZ4,
    PACKED,
    RAW,
    ZSTD,
    ZSTD_DICTIONARY,
    Entropy,
    coded_block,
)
from tests.format.support.recipe import AS_IS, DELTA, MED, NARROW, PALETTE, Crafted, Recipe, craft_frame

NAMES = {HUFFMAN: "huffman", ANS: "ans"}


def array_type(dtype: str) -> np.dtype[np.generic]:
    """NumPy's type of an array: unsigned integers where it has none."""
    lacks = {1: "u1", 2: "u2", 4: "u4"}
    if dtype in ("bfloat16", "complex32", "float4_e2m1fn_x2") or dtype.startswith("float8"):
        return np.dtype(lacks[itemsize(dtype) * (2 if dtype in COMPLEX else 1)])
    return np.dtype(dtype)


def random_bits(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Any bit pattern, NaNs of every kind with it; bool alone has two."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    kind = array_type(dtype)
    return np.frombuffer(rng.bytes(math.prod(shape) * kind.itemsize), kind).reshape(shape)


def smooth(shape: tuple[int, ...], dtype: str = "uint8", seed: int = 0) -> Array:
    """A wavy image with some noise, as a photograph is."""
    rng = np.random.default_rng(seed)
    grid = np.indices(shape).sum(axis=0) / 5.0
    top = 250 if itemsize(dtype) == 1 else 60000
    noise = rng.integers(0, 6, shape)
    image: Array = np.sin(grid) * 0.45 * top + 0.5 * top + noise
    return image.astype(array_type(dtype))


def skewed(size: int, seed: int = 0, top: int = 40) -> Array:
    """Bytes of which few are frequent."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.2, size) - 1, top).astype(np.uint8)


def few_floats(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """An array with few distinct bit patterns."""
    rng = np.random.default_rng(seed)
    parts = 2 if dtype in COMPLEX else 1
    patterns = rng.integers(0, 2 ** (8 * itemsize(dtype)), 50, dtype=np.uint64).astype(f"<u{itemsize(dtype)}")
    chosen = patterns[rng.integers(0, 50, (*shape, parts))]
    return np.ascontiguousarray(chosen).view(array_type(dtype)).reshape(shape)


def _simple() -> dict[str, Crafted]:
    found = {f"stored-{dtype}": craft_frame(random_bits(dtype, (2, 3, 4)), dtype) for dtype in DTYPES}
    found["scalar"] = craft_frame(np.array(-1.5, np.float32), "float32")
    found["empty"] = craft_frame(np.zeros((3, 0, 2), np.int16), "int16")
    found["empty-med"] = craft_frame(np.zeros((0, 4, 4), np.uint8), "uint8", Recipe(predict=MED, geometry=1, coder=ANS))
    found["rank-64"] = craft_frame(random_bits("uint8", (1,) * 62 + (2, 3)), "uint8")
    found["blocks"] = craft_frame(random_bits("int32", (103,)), "int32", Recipe(block=10))
    found["padded"] = craft_frame(random_bits("uint8", (16,)), "uint8", Recipe(pad=63))
    chain = craft.chain()
    found["higher-minor"] = Crafted(
        craft.frame("uint8", (3,), chain, [b"abc"], minor=9, flags=0xF0), np.frombuffer(b"abc", np.uint8), "uint8"
    )
    return found


def _narrow() -> dict[str, Crafted]:
    found = {}
    rng = np.random.default_rng(1)
    for dtype, minimum, bits in [
        ("int64", -(2**63), 8),
        ("uint64", -(2**63), 16),  # 2^63 as its bits read
        ("int32", -100, 16),
        ("uint16", 65000, 8),  # wraps around
        ("int8", -128, 8),
        ("int64", 7, 64),
        ("bool", 0, 1),
        ("int16", 30000, 1),
        ("uint32", 3, 32),
    ]:
        width = 8 * itemsize(dtype)
        codes = rng.integers(0, 2**bits, 100, dtype=np.uint64)
        elements = (codes + np.uint64(minimum % 2**64)).astype(f"<u{width // 8}")
        array = elements.view(array_type(dtype)).reshape(10, 10)
        recipe = Recipe(value=NARROW, minimum=minimum, bits=bits, block=24)
        found[f"narrow-{dtype}-{bits}"] = craft_frame(array, dtype, recipe)
    seven = np.full((3, 5), 7, np.int32)
    found["narrow-constant"] = craft_frame(seven, "int32", Recipe(value=NARROW, minimum=7, bits=0))
    flags = random_bits("bool", (1000,))
    ones = craft.frame("bool", (9,), craft.chain(craft.narrow(bits=1)), [b"\xff\xff"])
    found["narrow-bits-rest-of-ones"] = Crafted(ones, np.ones(9, np.bool_), "bool")
    found["narrow-bits-coded"] = craft_frame(
        flags, "bool", Recipe(value=NARROW, bits=1, block=512, coder=HUFFMAN, modes=(ENTROPY,))
    )
    ramp = (np.arange(60) % 16).astype(np.int64) + 5
    found["narrow-shift"] = craft_frame(
        ramp, "int64", Recipe(value=NARROW, minimum=5, bits=8, shift=4, coder=ANS, log=6)
    )
    return found


def _palettes() -> dict[str, Crafted]:
    found = {}
    for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "complex32"):
        array = few_floats(dtype, (3, 5, 7))
        found[f"palette-{dtype}"] = craft_frame(array, dtype, Recipe(value=PALETTE))
        found[f"palette-plan-{dtype}"] = craft_frame(array, dtype, Recipe(value=PALETTE, palette_of_plan=True))
    for axis in range(3):
        array = few_floats("float32", (3, 4, 5), seed=axis)
        found[f"palette-axis-{axis}"] = craft_frame(array, "float32", Recipe(value=PALETTE, axis=axis))
        plan = Recipe(value=PALETTE, axis=axis, palette_of_plan=True, bits=16, coder=ANS, planes=1)
        found[f"palette-plan-axis-{axis}"] = craft_frame(array, "float32", plan)
    found["palette-axis-of-one"] = craft_frame(few_floats("float16", (9,)), "float16", Recipe(value=PALETTE, axis=0))
    found["palette-16"] = craft_frame(
        random_bits("float32", (20, 20)), "float32", Recipe(value=PALETTE, bits=16, coder=HUFFMAN, planes=1, block=150)
    )
    empty = craft.chain(craft.palette_in_frame([np.array([1], "<u4")] * 2, axis=0))
    found["palette-empty"] = Crafted(craft.frame("float32", (2, 0), empty), np.zeros((2, 0), np.float32), "float32")
    return found


def _images() -> dict[str, Crafted]:
    found = {}
    shapes = {0: (2, 9, 11), 1: (2, 3, 8, 9), 2: (2, 7, 9, 4)}
    for geometry, shape in shapes.items():
        for color in range(3) if geometry else (0, 2):
            for dtype, planes in (("uint8", 0), ("uint8", 1), ("int16", 1)):
                coder = (geometry + color) % 2
                recipe = Recipe(
                    predict=MED, geometry=geometry, color=color, planes=planes, coder=coder, tile=(2, 2), block=5,
                    modes=(ENTROPY, ENTROPY, LZ4, ENTROPY), tables=3, map_form=color % 2, log=11,
                )  # fmt: skip
                name = f"med-{('hw', 'chw', 'hwc')[geometry]}-color{color}-{dtype}-planes{planes}"
                found[name] = craft_frame(smooth(shape, dtype), dtype, recipe)
    found["med-one-column"] = craft_frame(smooth((20, 1)), "uint8", Recipe(predict=MED, coder=HUFFMAN, block=7))
    found["med-noise"] = craft_frame(random_bits("uint8", (15, 17)), "uint8", Recipe(predict=MED, coder=ANS))
    found["med-palette"] = craft_frame(
        few_floats("float32", (3, 6, 6)), "float32",
        Recipe(value=PALETTE, axis=0, predict=MED, geometry=1, color=1, coder=ANS, tile=(1, 2)),
    )  # fmt: skip
    wide = Recipe(value=NARROW, minimum=-3, bits=16, predict=MED, geometry=2, color=2, planes=1, coder=HUFFMAN)
    found["med-narrow"] = craft_frame(smooth((6, 7, 5), "uint16").astype(np.int64) - 3, "int64", wide)
    return found


def _flat() -> dict[str, Crafted]:
    found = {}
    for dtype in ("int8", "int16", "float32", "int64", "complex64"):
        for lag in (1, 3, 2**32 - 1):
            recipe = Recipe(predict=DELTA, lag=lag, planes=lag % 2, coder=HUFFMAN, modes=(ENTROPY, RAW, ZSTD), block=40)
            found[f"delta-{dtype}-{lag}"] = craft_frame(random_bits(dtype, (101,)), dtype, recipe)
    for dtype in ("uint8", "bfloat16", "float32", "float64", "complex32"):
        for planes in (1, 2):
            recipe = Recipe(planes=planes, coder=ANS, modes=(ENTROPY, RAW), block=64, tile=(0, 4), tables=2)
            found[f"planes{planes}-{dtype}"] = craft_frame(random_bits(dtype, (150,)), dtype, recipe)
    return found


def _coded() -> dict[str, Crafted]:
    found = {}
    text = np.frombuffer(b"the quick brown fox jumps over the lazy dog; " * 8, np.uint8)
    for mode, name in [(RAW, "raw"), (ZSTD, "zstd"), (LZ4, "lz4")]:
        found[f"mode-{name}"] = craft_frame(text, "uint8", Recipe(coder=HUFFMAN, modes=(mode,), block=100))
    found["mode-constant"] = craft_frame(np.full(99, 77, np.uint8), "uint8", Recipe(coder=ANS, modes=(CONSTANT,)))
    found["mode-dictionary"] = craft_frame(
        text, "uint8", Recipe(coder=ANS, modes=(ZSTD_DICTIONARY,), block=100, dictionary=text[:200].tobytes())
    )
    trained = trained_dictionary()
    found["mode-dictionary-trained"] = craft_frame(
        text, "uint8", Recipe(coder=ANS, modes=(ZSTD_DICTIONARY,), block=100, dictionary=trained)
    )
    for window in (27, 28, 31):
        body = bytes([ZSTD]) + craft.varint(len(text) + 9) + zstd_window(text.tobytes(), window)
        frame = craft.frame("uint8", text.shape, craft.chain(coder=craft.coded()), [body])
        found[f"mode-zstd-window-{window}"] = Crafted(frame, text, "uint8")
    for size in (1, 2, 3, 4, 5, 7, 8, 9, 1000):
        for coder in (HUFFMAN, ANS):
            found[f"{NAMES[coder]}-{size}"] = craft_frame(skewed(size), "uint8", Recipe(coder=coder))
    for log in range(5, 13):
        data = skewed(700, seed=log, top=30)
        found[f"ans-log-{log}"] = craft_frame(data, "uint8", Recipe(coder=ANS, log=log))
    for coder in (HUFFMAN, ANS):
        for tables in (2, 3, 5, 64):
            for form in (PACKED, CODED):
                for of_plan in (False, True):
                    recipe = Recipe(
                        coder=coder, tables=tables, map_form=form, tile=(0, 3), block=600, log=9, tables_of_plan=of_plan
                    )
                    name = f"{NAMES[coder]}-{tables}-tables-{('packed', 'coded')[form]}{'-plan' if of_plan else ''}"
                    found[name] = craft_frame(skewed(1500), "uint8", recipe, seed=tables)
        found[f"{NAMES[coder]}-plan"] = craft_frame(
            skewed(120), "uint8", Recipe(coder=coder, tables_of_plan=True, block=50)
        )
        same = np.full(50, 200, np.uint8)
        found[f"{NAMES[coder]}-one-symbol"] = craft_frame(same, "uint8", Recipe(coder=coder))
        found[f"{NAMES[coder]}-all-symbols"] = craft_frame(
            random_bits("uint8", (900,)), "uint8", Recipe(coder=coder, value=AS_IS)
        )
        found[f"{NAMES[coder]}-empty-ends"] = _with_empty_ends(coder)
        found[f"{NAMES[coder]}-zero-table"] = _with_zero_table(coder)
    return found


def trained_dictionary() -> bytes:
    """One in Zstandard's own format, not just content."""
    import zstandard

    samples: list[bytes | bytearray | memoryview] = [
        b"the lazy dog number %d jumps over the quick brown fox %d" % (i, i * i) for i in range(400)
    ]
    return zstandard.train_dictionary(600, samples).as_bytes()


def zstd_window(data: bytes, log: int) -> bytes:
    """A Zstandard frame that stores data, up to 128 KiB, and asks for a window of 2^log bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, (log - 10) << 3]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


def _with_empty_ends(coder: int) -> Crafted:
    """A table whose lowest and highest symbols never occur: wasteful, but nothing forbids it."""
    data = np.array([7, 7, 9, 7, 8, 7, 7, 9, 7, 8, 7, 8], np.uint8)
    table = {0: 0, 7: 128, 8: 64, 9: 64, 20: 0} if coder == ANS else {0: 0, 7: 1, 8: 2, 9: 2, 20: 0}
    body = coded_block([data.reshape(1, -1)], [ENTROPY], Entropy([table], coder, 8 if coder == ANS else 11))
    return Crafted(craft.frame("uint8", (12,), craft.chain(coder=craft.coded(coder)), [body]), data, "uint8")


def _with_zero_table(coder: int) -> Crafted:
    """Tiles of nothing but zeros have a table with that one symbol, so they cost no bits."""
    data = skewed(256)
    data[64:192] = 0
    log = 8 if coder == ANS else 11
    zeros = {0: 2**log if coder == ANS else 0}
    tables = [craft_coding.table_for(data, coder, log), zeros]
    tile_map = [0, 0, 1, 1, 1, 1, 0, 0]
    entropy = Entropy(tables, coder, log, (1, 32), tile_map)
    body = coded_block([data.reshape(1, -1)], [ENTROPY], entropy)
    chain = craft.chain(coder=craft.coded(coder, 0, 5))
    return Crafted(craft.frame("uint8", (256,), chain, [body]), data, "uint8")


SAMPLES: dict[str, Crafted] = _simple() | _narrow() | _palettes() | _images() | _flat() | _coded()
