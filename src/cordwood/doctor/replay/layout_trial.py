"""Measures what other layouts would save: replays suspects one by one, as they are, contiguous, and channels last.

    trial = LayoutTrial(tape, steps)
    for proof in trial.proofs(suspects, seconds=20.0):
        proof.gain.saves_ms, proof.memory_format

Only gains that stand out of their own noise and are worth a change remain, the best one first, each measured on top of
those before it, so that they add up.
"""

from dataclasses import dataclass, replace
from time import perf_counter

import torch

from cordwood.doctor.evidence.evidence import StepTimes
from cordwood.doctor.evidence.findings import HIGH_SHARE, MEDIUM_SHARE, Abstain
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay.layouts import Suspect, are_images, is_only_convolved
from cordwood.doctor.replay.leaves import Leaves
from cordwood.doctor.replay.replay import Replay, compare, replayable

_SCREENING = 0.6  # seconds for a first look at a suspect
_PROOF = (2.0, 6.0)  # seconds for the figure that is told; and for one more try where the machine is busy
_NO_PICTURE = 3.0  # a replay that takes so many times what the step took, or the other way round, is no picture of it
_BUSY = 1.5  # operations that took so many times in the run what they take in the replay had to share the machine
_LITTLE = 2.0  # times what must be saved: a gain that is less is asked for twice
_OFTEN = 3.0  # spreads within which the truth is expected to lie


@dataclass(frozen=True)
class Proof:
    """A change that pays. The gain is that of a step of the run: what was replayed, times ``scale``.

    ``slower`` is how many times as long the operations took in the run, where that is too much to be scaled.
    """

    suspect: Suspect
    memory_format: torch.memory_format
    gain: Gain
    scale: float = 1.0
    slower: float = 1.0


class LayoutTrial:
    """Replays of one tape."""

    def __init__(self, tape: Tape, steps: StepTimes) -> None:
        self._tape = tape
        self._steps = steps
        self._convolves = any(op.name.startswith("aten::convolution") for op in tape.ops)
        self._saved_ms = 0.0  # by the changes that are made already, as replayed
        self.not_tried = 0  # suspects that there was no time for

    @property
    def compute_ms(self) -> float:
        """What operations can have taken of a step: all but waiting for data."""
        return self._steps.mean_ms - self._steps.phase_ms("wait")

    def scale(self, replayed_ms: float) -> float:
        """What a millisecond of a replay is in a step of the run, where the machine had more, or less, to do.

        Abstains where the replay takes far longer. Where it takes far less, nobody knows what else the machine did in
        the run: a gain is then told as it was replayed, which is the least that it is.
        """
        if replayed_ms > _NO_PICTURE * self.compute_ms:
            raise Abstain(
                f"replayed, the operations of the sampled step take {replayed_ms:.1f} ms; "
                f"a typical step takes {self.compute_ms:.1f} ms, so the replay is no picture of it"
            )
        if not replayed_ms or self.slower(replayed_ms) > _NO_PICTURE:
            return 1.0
        slower = self.slower(replayed_ms)
        return slower if slower > _BUSY else min(1.0, self.compute_ms / replayed_ms)

    def slower(self, replayed_ms: float) -> float:
        """How many times what the replay takes the operations took in the run."""
        return min(self.compute_ms, self._tape.recorded_ms) / replayed_ms if replayed_ms else 1.0

    def _worth(self, suspect: Suspect) -> float:
        """Milliseconds that a change must save to be told of.

        A convolution repacks what it gets, in one way or another from version to version, and hands its order on to
        what comes behind it: little gains do not last.
        """
        convolved = is_only_convolved(suspect) or (self._convolves and are_images(suspect))
        return (HIGH_SHARE if convolved else MEDIUM_SHARE) * self._steps.mean_ms

    def could_matter(self, suspect: Suspect, replayed_ms: float) -> bool:
        """Whether it would be worth a change if all operations that take its tensors took no time at all."""
        return suspect.at_stake_ms * self.scale(replayed_ms) >= self._worth(suspect)

    def proofs(self, suspects: list[Suspect], seconds: float) -> list[Proof]:
        """The changes that pay."""
        deadline = perf_counter() + seconds
        program = replayable(self._tape)
        found: list[Proof] = []
        while suspects:
            promising = []
            for number, suspect in enumerate(suspects):
                if number and perf_counter() > deadline:  # the one with most at stake is looked at in any case
                    self.not_tried += len(suspects) - number
                    break
                promising += self._formats(program, suspect)
            if not promising:
                break
            best = max(promising, key=lambda proof: proof.gain.saves_ms)
            mended = program.with_contiguous(best.suspect.numbers, best.memory_format)
            proof = self._proven(program, mended, best)
            if proof is not None:
                found.append(proof)
                program = mended
                self._saved_ms += proof.gain.saves_ms / proof.scale
            suspects = [
                suspect
                for suspect in suspects
                if suspect is not best.suspect and any(suspect is each.suspect for each in promising)
            ]
        return found

    def _formats(self, program: Replay, suspect: Suspect) -> list[Proof]:
        """The layouts of a suspect that promise something at a first look."""
        found = []
        for memory_format in suspect.formats:
            mended = program.with_contiguous(suspect.numbers, memory_format)
            if _runs(mended):
                gain, scale = self._scaled(compare(program, mended, _SCREENING))
                if self._is_promising(suspect, gain):
                    found.append(Proof(suspect, memory_format, gain, scale))
        return found

    def _proven(self, program: Replay, mended: Replay, proof: Proof) -> Proof | None:
        """Measured once more, and longer: of many looks at noise, one is good by chance."""
        gain, scale = self._scaled(compare(program, mended, _PROOF[0]))
        if self._is_promising(proof.suspect, gain) and not gain.is_sure:
            gain, scale = self._scaled(compare(program, mended, _PROOF[1]))
        if not gain.is_sure or gain.saves_ms < self._worth(proof.suspect):
            return None
        if gain.saves_ms < _LITTLE * self._worth(proof.suspect):
            gain, scale = min((gain, scale), self._elsewhere(program, mended), key=lambda each: each[0].saves_ms)
            if not gain.is_sure or gain.saves_ms < self._worth(proof.suspect):
                return None
        slower = self.slower(gain.before_ms / scale + self._saved_ms)
        return replace(proof, gain=gain, scale=scale, slower=slower if slower > _NO_PICTURE else 1.0)

    def _elsewhere(self, program: Replay, mended: Replay) -> tuple[Gain, float]:
        """The same once more with tensors in other places of memory: where they lie can make a little difference."""
        leaves = Leaves(self._tape)
        before, after = (Replay(self._tape, each.changes, leaves) for each in (program, mended))
        return self._scaled(compare(before, after, _PROOF[0]))

    def _is_promising(self, suspect: Suspect, gain: Gain) -> bool:
        return gain.saves_ms > gain.spread_ms and gain.saves_ms >= self._worth(suspect)

    def _scaled(self, gain: Gain) -> tuple[Gain, float]:
        # What the step took in the run is to be seen beside the step as it was, not as it has been mended by now.
        factor = self.scale(gain.before_ms + self._saved_ms)
        values = (gain.saves_ms, gain.spread_ms, gain.before_ms, gain.after_ms)
        saves, spread, before, after = (each * factor for each in values)
        # Scaled up, it is more than was seen: what was seen stays within what is told.
        spread = max(spread, (factor - 1) * gain.saves_ms / _OFTEN)
        return Gain(saves, spread, before, after, gain.pairs), factor


def _runs(program: Replay) -> bool:
    """Not if there is a view later on that the other layout does not allow: the script could not do that, either."""
    try:
        program.run()
    except Exception:
        return False
    return True
