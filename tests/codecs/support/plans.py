"""Any plan that can be: hypothesis draws the stages, their parameters and the dtype."""

from hypothesis import strategies as st

from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import Formula
from cordwood.codecs.plan import GOALS as GOALS
from cordwood.codecs.plan import Plan
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import CODERS, Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import COLORS, GEOMETRIES, Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd

ANS = Plan.single("small", "uint8", (Entropy("ans"),))

numbers = st.floats(-1e6, 1e6, width=32)
formulas = st.builds(
    Formula,
    st.lists(
        st.tuples(st.sampled_from("*/+-"), st.lists(numbers, min_size=1, max_size=3).map(tuple)), min_size=1, max_size=4
    ).map(tuple),
    st.sampled_from(["float32", "float64"]),
    st.integers(1, 256),
)
narrows = st.builds(Narrow, st.booleans(), st.booleans())
palettes = st.builds(Palette, st.none() | st.integers(-4, -1), st.sampled_from([8, 16])) | st.builds(
    lambda axis, formula: Palette(axis, 8, "formula", formula), st.none() | st.integers(-4, -1), formulas
)
predictions = st.builds(
    Predict,
    st.sampled_from(["med", "delta"]),
    st.sampled_from(list(GEOMETRIES)),
    st.sampled_from(list(COLORS)),
    st.integers(1, 2**32 - 1),
)
coders: st.SearchStrategy[Stage] = st.one_of(
    st.builds(
        Entropy, st.sampled_from(list(CODERS)), st.sampled_from([4, 8, 16, 32, 64]), st.integers(1, 16),
        st.floats(0, 0.99), st.booleans(),
    ),
    st.builds(Zstd, st.integers(1, 12)),
    st.builds(Lz4, st.integers(1, 12)),
)  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan whose stages go together and with its dtype."""
    dtype = draw(st.sampled_from(list(DTYPES)))
    kind = DTYPES[dtype].kind
    stages: list[Stage] = []
    if kind in ("bool", "integer"):
        stages += draw(st.lists(narrows, max_size=1))
    if kind == "float":
        stages += draw(st.lists(palettes, max_size=1))
    if draw(st.integers(0, 5)) == 0:
        return Plan.single(draw(st.sampled_from(GOALS)), dtype, (*stages, Raw()))
    stages += draw(st.lists(predictions, max_size=1))
    stages += draw(st.lists(st.builds(Planes, st.booleans()), max_size=1))
    return Plan.single(draw(st.sampled_from(GOALS)), dtype, (*stages, draw(coders)))
