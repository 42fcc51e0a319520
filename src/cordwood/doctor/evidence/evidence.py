"""What probes have recorded, for rules to read. A signal that could not be recorded is None, with a reason in
``missing``.

    evidence.steps.median_ms            # of a training step
    evidence.steps.phase_ms("wait")
    evidence.missing.get("tape")        # "torch.compile is in use: ..."

Probes write, rules read; nothing here measures.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cordwood.doctor.evidence.findings import Abstain, CodeLine

if TYPE_CHECKING:
    from cordwood.doctor.evidence.fetches import Fetches
    from cordwood.doctor.evidence.stacks import Stacks
    from cordwood.doctor.evidence.tape import Tape

FAILED = "the doctor failed"  # how the reason begins for what is missing by its own fault
NO_SAVES = "no torch.save to a file was seen"  # what `cw.save` writes holds no waste, and is not looked at
NO_TIME = "no time"  # in the reasons of rules that were given none for a replay or a trial
LEAST_WAITING = 0.05  # of a step: less waiting for data is not worth a trial, nor a word in the verdict
_STRETCHES = 10
_STEPS_IN_A_STRETCH = 4  # at least, so that loaders that deliver in bursts do not look like noise
_FEWEST_ITERATORS = 10  # before they look like a habit
_ABOUT_ONE = 1.1  # batches of an iterator
# The parts of a step, in the order in which they are shown. "transfer" is the copy from host to device.
PHASES = ("wait", "transfer", "forward", "backward", "optimizer", "other")


@dataclass(frozen=True)
class StepTimes:
    """The training steps that nothing disturbed: warm-up, steps with deep probes, and first batches are left out."""

    times: NDArray[np.float64]  # (steps, phases), milliseconds
    count: int  # all training steps that were seen, the left out ones, too
    first_waits: NDArray[np.float64]  # for the first batch of each epoch, milliseconds
    numbers: NDArray[np.int64]  # of the rows of `times`: which step each was
    left_out: dict[str, int] = field(default_factory=dict)  # why -> how many

    @property
    def totals(self) -> NDArray[np.float64]:
        """Milliseconds of each step."""
        totals: NDArray[np.float64] = self.times.sum(axis=1)
        return totals

    @property
    def mean_ms(self) -> float:
        """Of a step; shares are taken of this, since seconds add up."""
        return float(self.totals.mean())

    @property
    def median_ms(self) -> float:
        """Of a step."""
        return float(np.median(self.totals))

    @property
    def stretches(self) -> NDArray[np.float64]:
        """The mean step of a few stretches of the run: what comes every few steps is in all, a hiccup in one."""
        count = max(1, min(_STRETCHES, len(self.times) // _STEPS_IN_A_STRETCH))
        return np.array([stretch.mean() for stretch in np.array_split(self.totals, count)])

    @property
    def typical_ms(self) -> float:
        """Of a step, where a busy moment of the machine does not count: what two runs are compared by."""
        return float(np.median(self.stretches))

    def phase_ms(self, phase: str) -> float:
        """The mean milliseconds of a phase in a step."""
        return float(self.times[:, PHASES.index(phase)].mean())

    def phase_share(self, phase: str) -> float:
        """The part of all time that is spent in a phase."""
        return self.phase_ms(phase) / self.mean_ms if self.mean_ms else 0.0


@dataclass(eq=False, slots=True)
class LoaderSeen:
    """A loader that the script iterates; the object itself is kept, so that it can be tried in other ways."""

    loader: Any  # a torch DataLoader, a cw.Loader, or what was given to `diagnose`
    place: CodeLine | None  # where it is iterated
    made_at: CodeLine | None = None  # where it was made, if the doctor was there
    batches: int = 0
    epochs: int = 0
    is_training: bool = False  # a backward pass followed one of its batches
    last_batch: Any = None  # of the first few: for replays; None if it was too large to keep

    def more_batches(self, count: int) -> None:
        """It gave so many more."""
        self.batches += count

    @property
    def begins_for_every_batch(self) -> bool:
        """Whether iterators are dropped after their first batch, though there are more: ``next(iter(loader))``."""
        if self.epochs < _FEWEST_ITERATORS or self.batches > _ABOUT_ONE * self.epochs:
            return False
        try:
            return len(self.loader) > 1  # an epoch may be one batch: then nothing is dropped
        except TypeError:
            return False


@dataclass(eq=False, slots=True)
class ModuleSeen:
    """A module that the script calls itself (not one that another module calls)."""

    module: Any
    place: CodeLine | None
    training_calls: int = 0  # with gradients on, in train mode, followed by a backward pass
    arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # of one training call, for replays

    def more_training_calls(self, count: int) -> None:
        """It was called so many times more."""
        self.training_calls += count


@dataclass(eq=False, slots=True)
class StageSeen:
    """A module is trained for the first time."""

    module: ModuleSeen
    step: int  # training steps before that
    trained: list[tuple[ModuleSeen, int]]  # modules that were trained before it, and their calls until then


@dataclass(eq=False)
class ValidationSeen:
    """Batches that nothing was learned from: forward passes with no backward pass."""

    module: Any
    place: CodeLine | None  # where the module is called
    batches: int = 0
    calls: int = 0  # of the module: a batch may go through it several times
    milliseconds: float = 0.0
    with_gradients: int = 0  # batches whose forward pass built a graph
    in_train_mode: int = 0  # batches with the module in train mode
    layers: list[str] = field(default_factory=list)  # that were in train mode then, and behave differently in it
    arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # of one call, for replays


@dataclass
class SaveCall:
    """A line that calls torch.save."""

    place: CodeLine | None
    path: str
    calls: int = 0
    seconds: float = 0.0
    looked_at: int = 0  # calls whose file was looked at; the bytes are theirs
    stored_bytes: int = 0  # of tensors
    wasted_bytes: int = 0  # that no saved tensor reaches


@dataclass
class TransferCall:
    """A line that copies from host memory to a device."""

    place: CodeLine | None
    calls: int = 0
    nbytes: int = 0
    milliseconds: float = 0.0
    unpinned: int = 0  # calls
    blocking: int = 0


@dataclass
class SyncCall:
    """A line that takes a value from a tensor, and so waits for the device: .item(), .cpu(), .tolist(), print ..."""

    place: CodeLine | None
    operation: str
    device: str
    calls: int = 0
    milliseconds: float = 0.0  # inside the calls
    numpy_milliseconds: float = 0.0  # of NumPy's work on what was taken, in the same function
    elements: int = 0  # of the largest tensor that values were taken from
    by_step: dict[int, float] = field(default_factory=dict)  # step -> milliseconds inside the calls


@dataclass
class SyncsSeen:
    """All such lines in the steps that were watched."""

    steps: int
    calls: list[SyncCall]


@dataclass
class ParameterUse:
    """Parameters that an optimizer holds and that never had a gradient in the steps that were looked at."""

    steps: int
    without_gradient: list[str]  # qualified names
    never_called: list[str]  # those of them whose module was never called, either
    sizes: dict[str, int]  # elements by name, for the names above
    total: int  # elements of all parameters of all optimizers
    places: dict[str, CodeLine] = field(default_factory=dict)  # where the module is made, if found
    chosen: list[str] = field(default_factory=list)  # never called, but others of the same ModuleList are


@dataclass
class RetainedTensors:
    """Tensors with a graph that live on from step to step."""

    name: str  # the variable, attribute or list that holds them
    place: CodeLine | None
    tensors_a_step: float
    bytes_a_step: float
    nodes_a_step: float  # of autograd graphs
    elements: int = 1  # of the largest of them
    was_emptied: bool = False  # there were fewer again later on


@dataclass
class MemorySeen:
    """What stays alive at the end of a step."""

    steps: int  # between the first and the last look
    leaks: list[RetainedTensors]
    alive: list[tuple[str, CodeLine | None, int]]  # variable, place, bytes: of the step before, at the peak of the next
    growth_bytes_a_step: float | None  # of the process's memory; None if it cannot be told
    peak_bytes: int | None = None


@dataclass
class Evidence:
    """Everything that was seen in a run."""

    environment: dict[str, Any] = field(default_factory=dict)
    steps: StepTimes | None = None
    loaders: list[LoaderSeen] = field(default_factory=list)
    modules: list[ModuleSeen] = field(default_factory=list)
    stages: list[StageSeen] = field(default_factory=list)  # in which modules began to be trained
    validation: list[ValidationSeen] = field(default_factory=list)
    saves: list[SaveCall] = field(default_factory=list)
    transfers: list[TransferCall] = field(default_factory=list)
    fetches: "Fetches | None" = None  # inside the workers, or inside next() without workers
    tape: "Tape | None" = None  # every operation of one training step
    stacks: "Stacks | None" = None  # sampled Python stacks of training steps
    syncs: SyncsSeen | None = None
    parameters: ParameterUse | None = None
    memory: MemorySeen | None = None
    warnings: list[tuple[str, CodeLine | None]] = field(default_factory=list)  # PyTorch's, about memory formats
    compiled: list[str] = field(default_factory=list)  # what torch.compile was used on
    micro_batches: float = 1.0  # loader batches per training step
    seconds_to_spend: float = 20.0  # on each rule's own trials and replays
    missing: dict[str, str] = field(default_factory=dict)  # signal -> why it is not there
    notes: list[str] = field(default_factory=list)  # for the reader of the report

    def need(self, signal: str) -> Any:
        """A signal that a rule cannot do without: abstains, with the reason, if it is missing."""
        value = getattr(self, signal)
        if value is None:
            raise Abstain(self.missing.get(signal, f"no {signal} could be seen in this run"))
        return value

    def need_steps(self, at_least: int = 8) -> StepTimes:
        """The steps, if there are enough of them to say something."""
        steps: StepTimes = self.need("steps")
        if len(steps.times) < at_least:
            raise Abstain(f"{len(steps.times)} undisturbed training steps were seen; at least {at_least} are needed")
        return steps

    def need_seconds(self) -> float:
        """What a rule may spend on its replays and trials, if that is anything."""
        if self.seconds_to_spend <= 0:
            raise Abstain(f"{NO_TIME} was given for replays and trials")
        return self.seconds_to_spend

    def training_loader(self) -> LoaderSeen:
        """The loader that feeds training, the busiest if there are several."""
        training = [seen for seen in self.loaders if seen.is_training]
        if not training:
            raise Abstain("no loader was seen that feeds training")
        return max(training, key=lambda seen: seen.batches)
