"""Palettes from formulas, computed once more with fractions: exact, and rounded as IEEE 754 says after every step.

`FORMULAS` are frames; no float arithmetic of NumPy or of the processor is part of what is expected of them.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tests.format.support import craft
from tests.format.support.craft import Array, chain, frame
from tests.format.support.recipe import Crafted
from tests.format.support.samples import array_type

# bits of the fraction with the hidden one, exponent of the largest power of two
FORMATS = {"float16": (11, 15), "bfloat16": (8, 127), "float32": (24, 127), "float64": (53, 1023)}
WORK = ("float32", "float64")


def exponent_of(value: Fraction) -> int:
    """The floor of the logarithm to base 2 of a value that is not zero."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if abs(value) >= Fraction(2) ** exponent else exponent - 1


def rounded(value: Fraction, kind: str) -> Fraction | None:
    """To nearest even in this format; None beyond its range."""
    precision, top = FORMATS[kind]
    if value == 0:
        return value
    unit = Fraction(2) ** (max(exponent_of(value), 1 - top) - precision + 1)
    result = round(value / unit) * unit  # Python rounds fractions half to even
    return result if abs(result) < Fraction(2) ** (top + 1) else None


def bits_of(value: Fraction, kind: str) -> int:
    """The bit pattern of a value that the format holds. Zero is positive."""
    precision, top = FORMATS[kind]
    if value == 0:
        return 0
    exponent = max(exponent_of(value), 1 - top)
    mantissa = abs(value) / Fraction(2) ** (exponent - precision + 1)
    assert mantissa.denominator == 1
    hidden = 1 << (precision - 1)
    biased = exponent + top if mantissa >= hidden else 0
    sign = int(value < 0) << (precision + top.bit_length())
    return sign | biased << (precision - 1) | int(mantissa) & (hidden - 1)


def value_of(k: int, operations: Sequence[tuple[int, int, Sequence[float]]], palette: int, work: str, kind: str) -> int:
    """The bit pattern of value k of a palette."""
    value = Fraction(k)
    for operation, scope, operands in operations:
        operand = Fraction(float(operands[palette if scope else 0]))
        exact = (value * operand, value / operand if operand else None, value + operand, value - operand)[operation]
        after = None if exact is None else rounded(exact, work)
        if after is None:
            raise ValueError("choose operands that stay within the range")
        value = after
    last = rounded(value, kind)
    if last is None:
        precision, top = FORMATS[kind]
        infinity = (2 * top + 1) << (precision - 1)
        return infinity | int(value < 0) << (precision + top.bit_length())
    return bits_of(last, kind)


def formula_frame(
    kind: str, work: int, operations: Sequence[tuple[int, int, Sequence[float]]], n: int, palettes: int = 1
) -> Crafted:
    """A frame with every value of every palette, one palette a row."""
    exact = np.float32 if work == 0 else np.float64
    operations = [(op, scope, [float(exact(x)) for x in operands]) for op, scope, operands in operations]
    bits = 8 if n <= 256 else 16
    axis = 0 if palettes > 1 else craft.WHOLE
    value = craft.palette_formula(n, operations, work, bits, axis)
    codes = np.tile(np.arange(n, dtype=f"<u{bits // 8}"), palettes)
    expected = [[value_of(k, operations, p, WORK[work], kind) for k in range(n)] for p in range(palettes)]
    array: Array = np.array(expected, f"<u{craft.itemsize(kind)}").view(array_type(kind))
    return Crafted(frame(kind, (palettes, n), chain(value), [codes.tobytes()]), array, kind)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MULTIPLY, DIVIDE, ADD, SUBTRACT = range(4)

_NORMALIZE = [(DIVIDE, 0, [255.0]), (SUBTRACT, 1, MEAN), (DIVIDE, 1, STD)]

FORMULAS: dict[str, Crafted] = {}
for _kind in FORMATS:
    for _work in (0, 1):
        _name = f"{_kind}-in-{WORK[_work]}"
        FORMULAS[f"{_name}-normalize"] = formula_frame(_kind, _work, _NORMALIZE, 256, 3)
        FORMULAS[f"{_name}-four"] = formula_frame(
            _kind, _work, [(MULTIPLY, 0, [1 / 3]), (ADD, 0, [0.1]), (DIVIDE, 0, [7.0]), (SUBTRACT, 0, [1.7])], 256
        )
        FORMULAS[f"{_name}-many"] = formula_frame(_kind, _work, [(MULTIPLY, 0, [2 / 65535]), (SUBTRACT, 0, [1])], 400)
        FORMULAS[f"{_name}-tiny"] = formula_frame(_kind, _work, [(MULTIPLY, 0, [2.0**-24 * 0.77])], 256)
        FORMULAS[f"{_name}-smallest"] = formula_frame(_kind, _work, [(MULTIPLY, 0, [2.0**-140 * 1.37])], 256)
        FORMULAS[f"{_name}-huge"] = formula_frame(_kind, _work, [(ADD, 0, [1]), (MULTIPLY, 0, [-733.5])], 256)
        # halves of the last place, so that ties are met
        FORMULAS[f"{_name}-ties"] = formula_frame(_kind, _work, [(MULTIPLY, 0, [2.0**-9]), (ADD, 0, [1.0])], 512)
# just off a tie of bfloat16, by less than float32 shows: to round twice would go wrong
FORMULAS["rounded-once"] = formula_frame(
    "bfloat16", 1, [(MULTIPLY, 0, [2.0**-8]), (ADD, 0, [1 + 2.0**-40]), (SUBTRACT, 0, [2.0**-39])], 256
)
