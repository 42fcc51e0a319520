"""Arrays that try an encoder: every dtype and shape, values of many kinds, strides forwards, backwards and zero."""

import math
import random
from collections.abc import Callable

import numpy as np

from cordwood import codecs
from cordwood.codecs import Goal
from tests.format.support.craft import DTYPES, Array
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type

GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")


class OddArrays:
    """The same seed gives the same arrays."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def shape(self, most: int) -> tuple[int, ...]:
        """Up to four dimensions, images more often than not; at most this many elements."""
        kind = self.random.randrange(6)
        if kind == 0:
            return (self.random.randrange(most + 1),)
        if kind == 1:
            return tuple(self.random.choice((0, 1, 1, 2, 3)) for _ in range(self.random.randrange(9)))
        side = max(1, math.isqrt(most // 4))
        height, width = self.random.randint(1, side), self.random.randint(1, side)
        channels = self.random.choice((1, 2, 3, 4))
        return [(height, width), (channels, height, width), (height, width, channels), (1, channels, height, width)][
            kind - 2
        ]

    def patterns(self, count: int, itemsize: int) -> Array:
        """Bit patterns of many kinds."""
        kind = self.random.randrange(7)
        if kind == 0:  # anything
            return np.frombuffer(self.numpy.bytes(count * itemsize), f"u{itemsize}").copy()
        if kind == 1:  # all the same
            return np.full(count, self.random.getrandbits(8 * itemsize), f"u{itemsize}")
        if kind == 2:  # few values
            few = np.frombuffer(self.numpy.bytes(self.random.choice((2, 3, 9, 256, 300)) * itemsize), f"u{itemsize}")
            return few[self.numpy.integers(0, len(few), count)]
        if kind == 3:  # a line with steps
            steps = self.numpy.integers(0, 1 << self.random.randint(1, 7), count)
            return np.cumsum(steps).astype(f"u{itemsize}")
        if kind == 4:  # runs
            runs = np.frombuffer(self.numpy.bytes((count // 20 + 1) * itemsize), f"u{itemsize}")
            return np.repeat(runs, 20)[:count]
        if kind == 5:  # small numbers
            return np.minimum(self.numpy.geometric(0.2, count), 250).astype(f"u{itemsize}")
        wave = (np.sin(np.arange(count) / 9) * 100 + 120).astype(np.int64)  # a wave
        return (wave + self.numpy.integers(0, 3, count)).astype(f"u{itemsize}")

    def array(self, most: int) -> tuple[Array, str]:
        """An array and the name of its dtype."""
        dtype = self.random.choice(DTYPES)
        kind = array_type(dtype)
        shape = self.shape(most)
        count = math.prod(shape)
        if kind.kind == "f" and self.random.random() < 0.5:
            with np.errstate(over="ignore"):
                return self.floats(shape).astype(kind), dtype
        if dtype == "bool":
            return (self.patterns(count, 1) & 1).astype(np.bool_).reshape(shape), dtype
        size = kind.itemsize if kind.kind != "c" else kind.itemsize // 2
        parts = self.patterns(count * (kind.itemsize // size), size)
        return np.ascontiguousarray(parts).view(kind).reshape(shape), dtype

    def floats(self, shape: tuple[int, ...]) -> Array:
        """Weights, or pixels as people normalise them, or the ends of the range."""
        kind = self.random.randrange(3)
        if kind == 0:
            return self.numpy.standard_normal(shape).astype(np.float32) * np.float32(0.02)
        if kind == 1:
            mean, std = (np.float32(round(self.random.uniform(0.2, 0.6), 3)) for _ in range(2))
            pixels = self.numpy.integers(0, 256, shape).astype(np.float32)
            return (pixels / np.float32(255) - mean) / std
        ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, 1.0], np.float32)
        return ends[self.numpy.integers(0, len(ends), shape)]

    def seen_oddly(self, array: Array) -> Array:
        """The array through strides: steps, backwards, turned, the same item again and again."""
        for _ in range(self.random.randrange(3)):
            kind = self.random.randrange(4)
            if array.ndim == 0 or kind == 3:
                array = np.broadcast_to(array, (self.random.randint(1, 3), *array.shape))
            elif kind == 0:
                array = array[:: self.random.choice((-1, 2, -3))]
            elif kind == 1:
                array = array.T
            else:
                array = array[..., :: self.random.choice((-1, 2))]
        return array

    def round_trip(self, keep: Callable[[bytes], None]) -> None:
        """Encode one odd array, or some with one plan, and get them back bit for bit. `keep` is told every frame."""
        array, dtype = self.array(self.random.choice((50, 3000, 40000)))
        odd = self.seen_oddly(array)
        goal = self.random.choice(GOALS)
        plan = codecs.plan([array], goal, dtype=dtype, own=self.random.random() < 0.4)
        if self.random.random() < 0.3:
            plan = codecs.Plan.from_json(plan.to_json())
        for one in (odd, array, self.patterned_like(array)):
            frame = codecs.encode(one, plan, dtype=dtype, threads=self.random.choice((1, 2)))
            keep(frame)
            got = codecs.decode(frame, plans=plan)
            if not same_bits(got, np.asarray(one)):
                raise AssertionError(f"{goal} plan {plan} gave another array back: {dtype} {one.shape}")
            if len(frame) > one.nbytes * 1.001 + 64 + 8 * one.ndim:
                raise AssertionError(f"{len(frame)} bytes for {one.nbytes}: {goal} plan {plan}, {dtype} {one.shape}")

    def patterned_like(self, array: Array) -> Array:
        """Another array of this dtype, with values that the plan has not seen."""
        shape = self.shape(500)
        if array.dtype == np.bool_:
            return (self.patterns(math.prod(shape), 1) & 1).astype(np.bool_).reshape(shape)
        noise = np.frombuffer(self.numpy.bytes(math.prod(shape) * array.itemsize), array.dtype)
        return noise.reshape(shape)
