"""What rules return: a finding, the place in the user's code, and the proof. Also the base class of rules.

    Finding(
        rule="non-contiguous",
        message="`batch + extra` works on a transposed tensor made in line 31",
        fix="extra = torch.from_numpy(np.ascontiguousarray(array))",
        place=place,
        saves_ms=41.2,
        spread_ms=3.0,
        verified="replay",
    )

Rules are in the folder ``rules``, one a file. They read evidence and measure where needed; they print nothing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cordwood.errors import UsageError

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import Evidence

Level = Literal["high", "medium", "info"]
LEVELS: tuple[Level, ...] = ("high", "medium", "info")
HIGH_SHARE = 0.10  # of a step
STARVED = "data-starved"
# Rules that try ways to wait less: they speak of the same waiting.
CURES_OF_WAITING = frozenset(("iterator-per-batch", "whole-batches", "workers", "cacheable-preprocessing"))
MEDIUM_SHARE = 0.03  # less than this is nothing to change a script for


@dataclass(frozen=True)
class CodeLine:
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""
    source: str = ""  # the line itself, stripped

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Detail:
    """A table of evidence below a finding: a title, the heads of the columns, and rows of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Finding:
    """One thing worth changing, or worth knowing.

    ``saves_ms`` is per training step; None where the gain is not time (memory, disk, right results), or where another
    finding already claims it. ``verified`` names the proof ("replay", "trial", "measured"), and is empty for an
    estimate. ``level`` None leaves it to the share of a step that would be saved.
    """

    rule: str
    message: str
    fix: str
    place: CodeLine | None = None
    saves_ms: float | None = None
    spread_ms: float | None = None
    verified: str = ""
    level: Level | None = None
    details: tuple[Detail, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.level is not None and self.level not in LEVELS:
            raise UsageError(f"the level of a finding is {self.level!r}, but one of {', '.join(LEVELS)} is expected")


def level_of_share(share: float) -> Level:
    """How loud a finding speaks that saves this share of a step."""
    if share >= HIGH_SHARE:
        return "high"
    return "medium" if share >= MEDIUM_SHARE else "info"


class Abstain(Exception):  # noqa: N818 - not an error: a rule that cannot know says so
    """Raised by a rule that lacks a signal, with the reason: what is missing is not zero."""


class Rule(ABC):
    """One check. The class attributes are its page in docs/rules, so they are whole sentences."""

    id: str
    title: str  # a few words
    measures: str  # what it looks at, and the proof it needs before it speaks
    costs: str  # why the thing found costs time, memory or right results
    wrong: str  # when it would be wrong, and what keeps it silent then
    cure: str  # what to do, with code

    @abstractmethod
    def judge(self, evidence: "Evidence") -> list[Finding]:
        """What is worth saying: nothing is "passed". Raises `Abstain` where a signal is missing."""
