"""Tracks which inputs the written samples came from, and the job's progress.

progress = ShardProgress(position)
cursor = InputCursor(progress, first, inputs, counts, raw_sizes, batch=1)
cursor.advance(samples, shard_is_full)          # that many of their samples were written
cursor.finish()                                 # and inputs without samples are counted
header, lines = progress.end_shard()
"""

from collections.abc import Sequence
from dataclasses import replace

from cordwood.errors import PackError
from cordwood.packing.journal.inputs import FAILED, InputEntry, InputsHeader, Lines, Position, Totals
from cordwood.sources import Input


class ShardProgress:
    """How far a job is: `position` and `totals` now; `first` and `lines` are those of the open shard."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.totals = Totals()
        self.first = position
        self.lines = Lines()
        self.new_lines = Lines()  # those that are not in the shard's log

    def note(self, entry: InputEntry) -> None:
        """An input, or a part of its samples, is in the open shard."""
        self.lines.add(entry)
        self.new_lines.add(entry)

    def end_shard(self) -> tuple[InputsHeader, bytes]:
        """Return what is to be recorded of the open shard; another one begins."""
        record = InputsHeader(self.first, self.position, replace(self.totals)), self.lines.text()
        self.first = self.position
        self.lines.clear()
        self.new_lines.clear()
        return record


class InputCursor:
    """Follows inputs as their samples are written; begins after those of the first unit that are stored already."""

    def __init__(
        self,
        progress: ShardProgress,
        first: int,
        inputs: Sequence[Input],
        counts: Sequence[int],
        raw_sizes: Sequence[int],
        batch: int,
    ) -> None:
        self._progress = progress
        self._number = first
        self._inputs = inputs
        self._counts = counts
        self._raw_sizes = raw_sizes
        self._batch = batch
        self._at = 0  # the input that the next sample is of
        self._sample = progress.position.samples  # its number among the samples
        self._of_unit = self._sample  # samples of the unit that are written
        self._here = 0  # samples of the input that are in the open shard
        self._left = max(counts[0], 0)
        self._check_again(counts[:batch])
        before = self._sample
        while before >= self._left and before:
            before -= self._left
            self._at += 1
            self._left = max(counts[self._at], 0)
        # Inputs without samples in front of the next sample were noted together with those before them.
        while self._sample and not self._left:
            self._at += 1
            self._left = max(counts[self._at], 0)
        self._left -= before
        if not self._sample:
            self._pass_empty()

    def _check_again(self, counts: Sequence[int]) -> None:
        """What is packed again of the first unit must be what is in another shard already, and more."""
        found = sum(count for count in counts if count > 0)
        if self._sample and found <= self._sample:
            name = self._inputs[0].name
            raise PackError(
                f"input {self._number}{f' ({name})' if name else ''} gave {found} samples, but {self._sample} of them "
                "were packed before the job was stopped, and there were more: the transform must give the same samples "
                "every time; pack to a new store"
            )

    def advance(self, samples: int, shard_is_full: bool) -> None:
        """That many samples were written; the last one made the shard full or did not."""
        totals = self._progress.totals
        totals.samples += samples
        totals.raw_bytes += sum(self._raw_sizes[self._sample : self._sample + samples])
        self._sample += samples
        while samples:
            while not self._left:
                self._finish_input(self._counts[self._at])
            took = min(samples, self._left)
            self._here += took
            self._left -= took
            self._of_unit += took
            samples -= took
            if not self._left:
                self._finish_input(self._here)
                self._pass_empty()
        if shard_is_full and self._here:
            self._note(self._here)
            self._here = 0
        self._set_position()

    def finish(self) -> None:
        """All samples were written."""
        self._progress.position = Position(self._number + len(self._inputs))

    def _pass_empty(self) -> None:
        """Inputs that have no samples belong to the shard that the sample before them is in.

        At the beginning of a unit they go with its first sample: a unit of which no sample is stored is done again as
        a whole, and they would be told twice.
        """
        while self._at < len(self._inputs) and self._left == 0 and not self._begins_unit():
            self._finish_input(self._counts[self._at])
        self._set_position()

    def _begins_unit(self) -> bool:
        """Whether the next input is the first one of a unit that has samples."""
        unit = self._counts[self._at : self._at + self._batch] if self._at % self._batch == 0 else ()
        return any(count > 0 for count in unit)

    def _set_position(self) -> None:
        unit = self._at - self._at % self._batch
        self._progress.position = Position(self._number + unit, self._of_unit)

    def _finish_input(self, samples: int) -> None:
        self._note(samples)
        totals = self._progress.totals
        totals.inputs += 1
        totals.dropped += self._counts[self._at] == 0
        totals.failed += self._counts[self._at] == FAILED
        totals.bytes_in += self._inputs[self._at].size or 0
        totals.more_frames += InputEntry.of(self._inputs[self._at], samples).more_frames
        self._at += 1
        self._here = 0
        if self._at % self._batch == 0:
            self._of_unit = 0
        self._left = max(self._counts[self._at], 0) if self._at < len(self._inputs) else 0

    def _note(self, samples: int) -> None:
        self._progress.note(InputEntry.of(self._inputs[self._at], samples))
