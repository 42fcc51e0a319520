"""The results of the demo, act by act; `terminal/text.py` prints them, `page/page.py` makes a page of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cordwood.packing import Packed


@dataclass(frozen=True)
class Photograph:
    """A small picture of a class, for people: its name, and a JPEG file."""

    name: str
    jpeg: bytes


@dataclass(frozen=True)
class PhotographFolder:
    """The folder that everything begins with."""

    path: Path
    images: int
    nbytes: int
    photographs: Sequence[Photograph]  # one a class


@dataclass(frozen=True)
class Packing:
    """The folder as a store: the command that makes it, and what `cw.pack` says of it."""

    command: str
    packed: Packed


@dataclass(frozen=True)
class SampleRow:
    """One way to keep the samples: its mean size, its median time to read one back, and whether nothing changed."""

    title: str
    bytes_a_sample: float
    read_seconds: float
    is_exact: bool
    note: str = ""
    is_ours: bool = False


@dataclass(frozen=True)
class BatchRow:
    """One way to keep them as a data set: seconds to write one sample, if it was written, and to read a batch."""

    title: str
    write_seconds: float | None
    batch_seconds: float
    batch: int
    is_exact: bool
    is_ours: bool = False

    @property
    def images_a_second(self) -> float:
        """As many as come in batches."""
        return self.batch / self.batch_seconds


@dataclass(frozen=True)
class Compared:
    """The same samples, kept in every way; ``baseline`` is the title of the one that sizes are compared with."""

    rows: Sequence[SampleRow]
    batches: Sequence[BatchRow]
    baseline: str
    samples: int
    shape: tuple[int, ...]

    def share(self, row: SampleRow) -> float:
        """The size of a sample as a part of the baseline's."""
        return row.bytes_a_sample / next(each.bytes_a_sample for each in self.rows if each.title == self.baseline)


@dataclass(frozen=True)
class Step:
    """A step of training: the seconds it waited for its batch, those it then took, and its loss."""

    waited: float
    took: float
    loss: float


@dataclass(frozen=True)
class TrainingRow:
    """One way to feed a net: the images of all steps that count, these steps, and whether the weights in the end are
    those of the first way."""

    title: str
    images: int
    steps: Sequence[Step]
    is_same: bool
    note: str = ""
    is_ours: bool = False

    @property
    def seconds(self) -> float:
        """Of all its steps."""
        return sum(step.waited + step.took for step in self.steps)

    @property
    def images_a_second(self) -> float:
        """That the net has seen."""
        return self.images / self.seconds

    @property
    def waited(self) -> float:
        """The part of the time in which a step had no batch."""
        return sum(step.waited for step in self.steps) / self.seconds

    @property
    def step_seconds(self) -> float:
        """That a step took once it had its batch, on average."""
        return sum(step.took for step in self.steps) / len(self.steps)


@dataclass(frozen=True)
class Training:
    """A net, trained in every one of these ways."""

    rows: Sequence[TrainingRow]
    times: int  # that it sees every image
    batch: int
    warm_up: int  # steps before those that count
    packed_seconds: float = 0.0  # that packing took, once, before the last way could be taken
    starting_seconds: float = 0.0  # of these, until its workers had started: the same for any number of images

    @property
    def saved_a_pass(self) -> float:
        """Seconds that a pass over all images takes less by our way than by the first one."""
        first, ours = self.rows[0], next((row for row in self.rows if row.is_ours), self.rows[0])
        images = (first.images + self.warm_up * self.batch) / self.times
        return images / first.images_a_second - images / ours.images_a_second

    @property
    def paid_back(self) -> str:
        """When the time of packing has come back, in words."""
        took = f"took {self.packed_seconds:.1f} s, once"
        if self.starting_seconds:
            took += f", {self.starting_seconds:.1f} of them to start workers, however many images there are"
        if self.saved_a_pass <= 0:
            return f"{took}; here a pass over the images takes no less time than from the first way"
        passes = math.ceil(self.packed_seconds / self.saved_a_pass)
        return (
            f"{took}; a pass over the images takes {self.saved_a_pass:.2f} s less than from {self.rows[0].title}, so "
            f"that it has paid for itself after {passes} {'pass' if passes == 1 else 'passes'}"
        )


@dataclass(frozen=True)
class ViewRow:
    """One way to save views: bytes of the file with one, and with two that overlap, and what comes back."""

    title: str
    one_view: int
    two_views: int
    is_exact: bool
    is_shared: bool
    is_ours: bool = False
    was_trimmed: bool = False  # the file was written by others, and made small afterwards


@dataclass(frozen=True)
class Views:
    """Views of so many elements, the second so many behind the first, of a tensor that has so many more."""

    rows: Sequence[ViewRow]
    elements: int
    step: int
    behind: int


@dataclass(frozen=True)
class Doctored:
    """What the doctor said of a script in this folder, what was done about it as told, and what came of that."""

    folder: Path
    before_command: str
    before: str  # its verdict
    before_phases: dict[str, float]  # milliseconds of a step, by their names; none if it saw no steps
    finding: str  # or why there is none: then nothing was done
    packing: str = ""  # the command that the finding prints
    where: str = ""  # the lines go, as the finding says it
    removed: Sequence[str] = ()
    lines: Sequence[str] = ()
    after_command: str = ""
    after: str = ""
    after_phases: dict[str, float] = field(default_factory=dict)
    compare_command: str = ""
    compared: Sequence[str] = ()
    before_ms: float | None = None  # a step, as it is compared; `before_phases` are means
    after_ms: float | None = None
    is_same: bool = False  # batches, before and after
    is_clear: bool = False  # a difference beyond the noise

    @property
    def has_advice(self) -> bool:
        """Whether there was advice to follow."""
        return bool(self.lines)

    @property
    def times_as_fast(self) -> float | None:
        """What a step became, by the figures that are compared."""
        return self.before_ms / self.after_ms if self.before_ms and self.after_ms else None


@dataclass(frozen=True)
class Artifact:
    """A file or folder that the demo has made, and what it is."""

    path: Path
    what: str


@dataclass(frozen=True)
class DemoReport:
    """All acts, what they have left behind, and on which machine they took how long."""

    folder: Path
    images: PhotographFolder
    packing: Packing
    compared: Compared
    training: Training
    views: Views
    doctored: Doctored
    made: Sequence[Artifact]
    environment: dict[str, Any]
    seconds: float
    nbytes: int  # of everything that is left, but for the page
