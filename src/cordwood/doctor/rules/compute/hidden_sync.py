"""``hidden-sync``: lines that take values out of tensors in every step, and so wait for the device or work slowly."""

from collections import defaultdict
from statistics import median
from time import perf_counter_ns

import torch

from cordwood.common.numbers import milliseconds, times
from cordwood.common.text import counted
from cordwood.doctor.code.numpy_work import OPERATION, array_work
from cordwood.doctor.evidence.evidence import Evidence, StepTimes, SyncCall, SyncsSeen
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, CodeLine, Detail, Finding, Rule
from cordwood.doctor.wording import share_of_step

_FEWEST_STEPS = 3  # in which a line was seen: once in a while is how logging should be
_LONG_LIST = 10_000  # elements: shorter ones are freed in no time
# On the CPU there is nothing to wait for, and finding non-zeros or copying is what the program computes.
_FREE_ON_CPU = (".cpu()", ".to()", "nonzero()")


class HiddenSync(Rule):
    """Reads what calls that take values cost, by line."""

    id = "hidden-sync"
    title = "values taken from tensors in every step"
    measures = (
        "In about thirty steps `.item()`, `.tolist()`, `.numpy()`, `.cpu()`, `bool()`, `float()`, `nonzero` and "
        "printing are timed by the user's line. Work of NumPy and its like on values that were taken out of a large "
        "tensor in the same function is added, from stack samples. It speaks of a line that takes 3% of a step or more."
    )
    costs = (
        "On a device such a call waits until everything queued before it is done; then the device idles until Python "
        "has queued something new. On the CPU nothing waits, but turning a large tensor into text, into a list or into "
        "a percentile by NumPy is work in every step, on one core."
    )
    wrong = (
        "A value that decides what the step does next must be taken. Logging every hundredth step is cheap, and lines "
        "that are cheap are silent. On a device the wait can be spared only as far as Python has other work to queue "
        "meanwhile: what is promised is bounded by that. Waits on CUDA could not be measured where this was built."
    )
    cure = (
        "Keep values on the device and take them later: `losses.append(loss.detach())`, then "
        "`torch.stack(losses).mean().item()` every hundredth step. Print every hundredth step. Compute with torch in "
        "place of NumPy: `torch.quantile(x, 0.95)`."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps()
        syncs: SyncsSeen = evidence.need("syncs")
        calls = [call for call in syncs.calls if not (call.device == "cpu" and call.operation in _FREE_ON_CPU)]
        if evidence.stacks is not None:
            calls += array_work(syncs.calls, evidence.stacks, syncs.steps)
        lines: dict[CodeLine, list[SyncCall]] = defaultdict(list)
        for call in calls:
            if call.place is not None:
                lines[call.place].append(call)
        findings = [_finding(place, found, syncs.steps, steps, evidence) for place, found in lines.items()]
        return [finding for finding in findings if finding is not None]


def _finding(
    place: CodeLine, calls: list[SyncCall], watched: int, steps: StepTimes, evidence: Evidence
) -> Finding | None:
    by_step: dict[int, float] = defaultdict(float)
    for call in calls:
        for step, ms in call.by_step.items():
            by_step[step] += ms
    in_calls = (sum(by_step.values()) + sum(map(_freeing_ms, calls))) / watched
    in_arrays = sum(call.numpy_milliseconds for call in calls) / watched
    cost = in_calls + in_arrays
    if len(by_step) < _FEWEST_STEPS or cost < MEDIUM_SHARE * steps.mean_ms:
        return None
    spread = _spread(list(by_step.values()), watched)
    if in_arrays and evidence.stacks is not None:
        spread += evidence.stacks.spread_ms(in_arrays)
    on_device = next((call.device for call in calls if call.device != "cpu"), "")
    # Without the wait a step takes as long as the host or the device alone, whichever is slower.
    saves = min(cost, max(0.0, steps.mean_ms - in_calls) if on_device else steps.mean_ms)
    if saves <= 3 * spread or saves < MEDIUM_SHARE * steps.mean_ms:
        return None
    operations = sorted({call.operation for call in calls}, key=lambda name: name == OPERATION)
    often = sum(call.calls for call in calls if call.operation != OPERATION) or max(call.calls for call in calls)
    return Finding(
        rule=HiddenSync.id,
        message=_message(operations, often / watched, cost, steps, on_device, max(call.elements for call in calls)),
        fix=_fix(operations, on_device),
        place=place,
        saves_ms=saves,
        spread_ms=spread,
        verified="measured",
        details=(
            Detail(
                "What the line takes out of tensors",
                ("operation", "device", "calls a step", "ms a step", "largest tensor"),
                tuple(
                    (
                        call.operation,
                        call.device,
                        times(call.calls / watched),
                        f"{(call.milliseconds + call.numpy_milliseconds) / watched:.3f}",
                        f"{call.elements:,}",
                    )
                    for call in sorted(calls, key=lambda call: -call.milliseconds - call.numpy_milliseconds)
                ),
            ),
        ),
    )


def _freeing_ms(call: SyncCall) -> float:
    """What it takes to free the lists that the calls made, which comes after them: some of what making them takes.

    The part is measured on a list of the same length.
    """
    if call.operation != ".tolist()" or call.elements < _LONG_LIST:
        return 0.0
    tensor = torch.zeros(call.elements)
    parts = []
    for _ in range(3):
        start = perf_counter_ns()
        values = tensor.tolist()
        made = perf_counter_ns()
        del values
        parts.append((perf_counter_ns() - made) / (made - start))
    return call.milliseconds * median(parts)


def _spread(times: list[float], watched: int) -> float:
    """The standard error of the mean over all watched steps, of which these are the ones with a call.

    A line that runs every few steps does so regularly: how often is known to one call more or less.
    """
    mean = sum(times) / len(times)
    variance = sum((time - mean) ** 2 for time in times) / max(1, len(times) - 1)
    of_calls = (variance / len(times)) ** 0.5 * len(times) / watched
    of_frequency = mean / watched if len(times) < watched else 0.0
    return float((of_calls**2 + of_frequency**2) ** 0.5)


def _message(operations: list[str], calls: float, cost: float, steps: StepTimes, device: str, elements: int) -> str:
    what = " and ".join(operations)
    share = share_of_step(cost, steps.mean_ms)
    if device:
        return (
            f"{what} waits {milliseconds(cost)} a step ({share}) for {device}, {_often(calls)}; the device then "
            "idles until Python has queued new work. Saves at most what Python could do meanwhile"
        )
    work = (
        "NumPy works on values that were taken out of a tensor"
        if operations == [OPERATION]
        else f"{what} of a tensor of {counted(elements, 'element')}"
    )
    return f"{work}: {milliseconds(cost)} in every step ({share}), {_often(calls)} a step"


def _often(calls: float) -> str:
    return "once" if (told := times(calls)) == "1" else f"{told} times"


def _fix(operations: list[str], device: str) -> str:
    every = "if step % 100 == 0:\n    ...  # this line, where it is only for people to read"
    if OPERATION in operations:
        return f"{every}\n# or compute with torch in place of NumPy: torch.quantile(x, 0.95), torch.histc(x), x.std()"
    if "printing" in operations:
        return f"{every}\n# or print a summary: x.mean().item(), tuple(x.shape)"
    if device:
        return (
            "values.append(x.detach())    # stays on the device\n"
            "if step % 100 == 0:\n"
            "    print(torch.stack(values).mean().item())    # one wait for all\n"
            "    values.clear()"
        )
    return f"{every}\n# or keep it as a tensor: x.detach()"
