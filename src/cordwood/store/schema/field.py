"""``cw.Field``: what a caller may ask for one field of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from cordwood.codecs import DTYPES, GOALS, Goal
from cordwood.common.arguments import checks_keywords, one_of, true_or_false
from cordwood.errors import UsageError

StoreAs = Literal["float16", "bfloat16", "float32"]
STORE_AS: Final[tuple[StoreAs, ...]] = get_args(StoreAs)


@dataclass(frozen=True)
class Field:
    """How one field of a store is kept, where it is not kept like the others.

    ::

        fields = {
            "image": cw.Field(goal="raw"),
            "features": cw.Field(store_as="float16"),
            "label": cw.Field(classes=["cat", "dog"]),
            "annotations": cw.Field(varies=True),
            "photo": cw.Field(keep_encoded=True),
            "mask": cw.Field(optional=True),
        }
        with cw.Writer("train.cordwood", fields=fields) as w: ...

    A field's name is the path of keys to it, joined by dots: ``"meta.path"``.

    ``goal`` chooses this field's plan: small, balanced, fast or raw.

    ``store_as`` gives up precision: floats are rounded to that dtype when they are stored, and come back in the dtype
    they had. The largest error met is recorded.

    ``varies`` keeps whatever comes below this name as it comes, of another type or structure in every sample, or in
    few samples only. Numbers and tensors in it are stored as plain bytes.

    ``classes`` are the names of the numbers that a field of integers holds, the first one that of 0.

    ``keep_encoded`` takes the bytes of an image file (JPEG, PNG, WebP, BMP, GIF or TIFF) and stores them as they are;
    whoever reads gets the image, decoded on threads: uint8, 3 x height x width, RGB, upright.

    ``optional`` takes samples that lack the field or have None there, also if each of the first samples has a value.
    It can be asked for a dict or tuple of fields, too: ``"meta"``.
    """

    goal: Goal | None = None
    store_as: StoreAs | None = None
    varies: bool = False
    classes: Sequence[str] | None = None
    keep_encoded: bool = False
    optional: bool = False

    def __post_init__(self) -> None:
        if self.goal is not None:
            one_of("goal", self.goal, GOALS)
        if self.store_as is not None and self.store_as not in STORE_AS:
            raise UsageError(
                f"store_as={self.store_as!r} is not possible: precision is given up by rounding floats to one of "
                f"{', '.join(STORE_AS)}"
            )
        true_or_false("varies", self.varies)
        true_or_false("optional", self.optional)
        if self.classes is not None:
            object.__setattr__(self, "classes", _class_names(self.classes))
        if self.varies and (self.store_as is not None or self.classes is not None):
            other = "classes" if self.store_as is None else "store_as"
            raise UsageError(f"a field that varies has no {other}: it may hold anything; leave one of the two out")
        if true_or_false("keep_encoded", self.keep_encoded):
            self._check_alone()

    def _check_alone(self) -> None:
        """Bytes that are kept as they came leave nothing else to ask for."""
        others = {
            "goal": self.goal not in (None, "raw"),
            "store_as": self.store_as is not None,
            "varies": self.varies,
            "classes": self.classes is not None,
        }
        wrong = next((name for name, asked in others.items() if asked), None)
        if wrong is not None:
            raise UsageError(
                f"keep_encoded=True stores an image's own bytes: {wrong}={getattr(self, wrong)!r} cannot be asked of "
                "the same field; leave one of the two out"
            )


# The dataclass makes its __init__ itself, so it can only be decorated afterwards.
Field.__init__ = checks_keywords("cw.Field")(Field.__init__)  # type: ignore[method-assign]


def can_store(dtype: str, store_as: str) -> bool:
    """Whether `store_as` is the dtype of narrower floats than `dtype`."""
    given = DTYPES.get(dtype)
    return (
        given is not None
        and store_as in STORE_AS
        and given.kind == "float"
        and (given.itemsize > DTYPES[store_as].itemsize)
    )


def _class_names(classes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(classes, str) or not all(type(name) is str for name in classes):
        raise UsageError(f"classes={classes!r}, but is a list of names, the first one that of label 0")
    names = tuple(classes)
    if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
        raise UsageError("classes has a name with a lone surrogate, which no text file can hold")
    if not names:
        raise UsageError("classes is empty: name at least one class, or leave it out")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"classes names {twice!r} twice: every label has a name of its own")
    return names
