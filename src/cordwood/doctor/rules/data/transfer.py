"""``transfer``: copies to a device from memory that is not pinned, that wait, or that are many and small."""

from typing import NamedTuple

import torch

from cordwood.common.numbers import milliseconds
from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import Evidence, StepTimes, TransferCall
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Finding, Rule
from cordwood.doctor.trials.copy import Change, try_copies
from cordwood.doctor.wording import share_of_step

_LEAST_SHARE = 0.05  # of a step
_SMALL_BYTES = 64 << 10
_MANY = 8  # small copies in a step
_MOST_LINES = 4
_PINNED = """\
loader = DataLoader(..., pin_memory=True)
batch = batch.to(device, non_blocking=True)"""
_TOGETHER = "# put them together on the host, and copy once:\nvalues = torch.stack(values).to(device)"
_NON_BLOCKING = "batch = batch.to(device, non_blocking=True)"


class _Line(NamedTuple):
    """What one line copies in a step."""

    call: TransferCall
    copies: float
    nbytes: int  # of one copy
    ms: float


class Transfer(Rule):
    """Speaks where copies to the device take a share of the step, and were faster in a trial."""

    id = "transfer"
    title = "slow copies to the device"
    measures = (
        "Copies from host memory to a device, by line: how many, how large, whether from pinned memory, whether they "
        "wait. Where they take at least 5% of a step, copies of the same sizes are tried from pinned memory, or as one "
        "copy in place of many small ones."
    )
    costs = (
        "From ordinary memory the driver first copies to memory of its own, and the program waits for both copies. "
        "Each copy has a price of its own, however small it is."
    )
    wrong = (
        "`tensor.pin_memory().to(device)` in the training loop is slower than a plain copy: memory must be pinned "
        "ahead of time, by the loader's own thread. Without an accelerator in use the rule abstains. It was tested "
        "with evidence made by hand, and on no device."
    )
    cure = f"```py\n{_PINNED}\n```\n\nMany small tensors are stacked on the host and copied together."

    def judge(self, evidence: Evidence) -> list[Finding]:
        if not evidence.transfers:
            raise Abstain("no accelerator in use: nothing was copied to a device")
        steps = evidence.need_steps()
        if steps.phase_share("transfer") < _LEAST_SHARE:
            return []
        evidence.need_seconds()
        lines = sorted((_line(call, steps) for call in evidence.transfers if call.calls), key=lambda line: -line.ms)
        lines = [line for line in lines if line.ms >= MEDIUM_SHARE * steps.mean_ms][:_MOST_LINES]
        seconds = evidence.seconds_to_spend / max(len(lines), 1)
        found = [self._judged(line, steps, seconds) for line in lines]
        return [finding for finding in found if finding is not None]

    def _judged(self, line: _Line, steps: StepTimes, seconds: float) -> Finding | None:
        what = f"{line.copies:,.3g} copies a step of {human(line.nbytes)} each"
        if line.copies >= _MANY and line.nbytes < _SMALL_BYTES:
            count = round(line.copies)
            return self._tried(
                line, steps, "together", count, f"{what} go to the device one by one", _TOGETHER, seconds
            )
        if line.call.unpinned > line.call.calls / 2:
            message = f"{what} come from memory that is not pinned"
            return self._tried(line, steps, "pinned", 1, message, _PINNED, seconds)
        if line.call.blocking <= line.call.calls / 2:
            return None
        message = (
            f"{what} come from pinned memory, and the program waits for them ({milliseconds(line.ms)}, "
            f"{share_of_step(line.ms, steps.mean_ms)} of a step): with non_blocking=True it goes on meanwhile"
        )
        return Finding(self.id, message, _NON_BLOCKING, line.call.place, level="info")

    def _tried(
        self, line: _Line, steps: StepTimes, change: Change, count: int, message: str, fix: str, seconds: float
    ) -> Finding | None:
        gain = try_copies(_device(), nbytes=line.nbytes, count=count, change=change, seconds=seconds)
        times = line.copies / count
        # A copy may have waited for work that was handed over before: no more can be saved than the line took.
        saves = min(gain.saves_ms * times, line.ms)
        if not gain.is_sure or saves < MEDIUM_SHARE * steps.mean_ms:
            return None
        message += f"; tried the other way, they take {milliseconds(gain.after_ms * times)} a step"
        message += f" instead of {milliseconds(gain.before_ms * times)}"
        spread = gain.spread_ms * times
        return Finding(self.id, message, fix, line.call.place, saves_ms=saves, spread_ms=spread, verified="trial")


def _line(call: TransferCall, steps: StepTimes) -> _Line:
    return _Line(call, call.calls / steps.count, call.nbytes // call.calls, call.milliseconds / steps.count)


def _device() -> torch.device:
    device = torch.accelerator.current_accelerator()
    if device is None:
        raise Abstain("no accelerator in use: the copies cannot be tried")
    return device
