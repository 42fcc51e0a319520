"""The base class of all sources: a list of inputs in the parent process, and a reader that runs in the workers.

    class Lines(Source):
        kind = "lines"

        def inputs(self, start=0):  # in the parent
            for number, line in enumerate(self.lines[start:], start):
                yield Input(line, name=f"{number}.txt")

        def reader(self):  # sent to workers, where it is called with an input's handle
            return str.split

Everything else has a default. `docs/extending.md` makes a whole source, step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, get_args

from cordwood.common.arguments import one_of, whole_number
from cordwood.errors import UsageError

Decode = Literal["tensor", "pil", "none"]
Frames = Literal["first", "all"]
DECODE: Final[tuple[Decode, ...]] = get_args(Decode)
FRAMES: Final[tuple[Frames, ...]] = get_args(Frames)
MAX_PIXELS: Final = 178_956_970  # Pillow's own limit: twice the size of what it warns about


class Input(NamedTuple):
    """One thing to preprocess, before it is read."""

    handle: Any  # what the reader needs: small, and it survives pickling
    name: str | None = None  # path in the source, with "/", unique; None: known by its number alone
    size: int | None = None  # bytes of the file
    stamp: int | None = None  # an integer that changes with the content: st_mtime_ns
    more_frames: bool = False  # found out when it was read: it has frames that its sample lacks


@dataclass(frozen=True)
class SourceOptions:
    """How inputs are to be read, where the source has a choice.

    ::

        SourceOptions(decode="pil")                          # images reach the transform as PIL images
        SourceOptions(decode_size=256)                       # JPEGs are scaled down, never to a shorter side below that
        SourceOptions(keep_encoded=frozenset({"image"}))     # that field stays the bytes of the file
        SourceOptions(absolute_paths=True)                   # a manifest may name files anywhere
    """

    decode: Decode = "tensor"
    decode_size: int | None = None
    max_pixels: int = MAX_PIXELS
    keep_encoded: frozenset[str] = field(default=frozenset())
    follow_links: bool = False  # out of the folder
    frames: Frames = "first"  # of an image with several: "first" or "all"
    absolute_paths: bool = False  # in a manifest

    def __post_init__(self) -> None:
        one_of("decode", self.decode, DECODE)
        one_of("frames", self.frames, FRAMES)
        object.__setattr__(self, "max_pixels", whole_number("max_pixels", self.max_pixels, 1))
        if self.decode_size is not None:
            object.__setattr__(self, "decode_size", whole_number("decode_size", self.decode_size, 1))


class Source(ABC):
    """Where samples come from. See `docs/extending.md`."""

    kind: ClassVar[str]  # what `source_kind=` and `--from` call it

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether that file or folder is one of this kind, by a short look at its content; it never raises."""
        return False

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        """The source at a path."""
        raise UsageError(f"a source of kind {cls.kind!r} is not opened by a path, and {str(path)!r:.200} is one")

    @property
    def count(self) -> int | None:
        """How many inputs there are; None if only the end will tell."""
        return None

    @property
    def indexed(self) -> bool:
        """Whether `inputs` can begin anywhere at little cost; packing then looks at inputs all over the source."""
        return self.count is not None

    @abstractmethod
    def inputs(self, start: int = 0) -> Iterator[Input]:
        """The inputs in their order, from number `start` on; the same ones in the same order every time."""

    @abstractmethod
    def reader(self) -> Callable[[Any], Any]:
        """A function from a handle to a sample. It goes to workers by pickling, so it holds no list of inputs.

        It may have an attribute ``more_frames``: whether the last file it read has frames that the sample lacks.
        """

    def describe(self) -> dict[str, Any]:
        """What a resumed job compares, as JSON: the kind, the path, and the options that change samples."""
        return {"kind": self.kind}

    def fingerprint(self) -> str | None:
        """A hash of the list of inputs: their names, sizes and stamps; None where it cannot be told."""
        return None

    def origin(self) -> Any:
        """The Python object that samples come from, whose code and state a resumed job compares; None for files."""
        return None

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        """For a field of class numbers, the classes' names: ``{"label": ["cat", "dog"]}``."""
        return {}

    @property
    def varying(self) -> Sequence[str]:
        """Fields whose values have several types or structures, whatever the first samples show: ``["boxes"]``."""
        return ()

    @property
    def field_types(self) -> Mapping[str, str]:
        """All fields of the samples, and their types: ``{"image": "", "age": "int"}``. Empty: not known yet.

        Types are "int", "float", "str", "bool", "any", or "" for a type that only a sample shows. An update compares
        them with the schema of its store.
        """
        return {}

    @property
    def absent(self) -> Mapping[str, str]:
        """For a field that people may look for in its samples and that they lack, why: ``{"label": "..."}``."""
        return {}

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know about the listing: what was left out, and why."""
        return ()
