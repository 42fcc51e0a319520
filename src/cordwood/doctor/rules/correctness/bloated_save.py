"""``bloated-save``: files of ``torch.save`` with bytes that no tensor in them reaches."""

import shlex
import tempfile
from pathlib import Path
from time import perf_counter

import torch

from cordwood.common.numbers import milliseconds
from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import NO_SAVES, Evidence, SaveCall
from cordwood.doctor.evidence.findings import Abstain, Finding, Rule
from cordwood.doctor.measure.pairs import Gain, measure_pair

_SHARE = 0.10  # of a file
_MUCH = 1_000_000  # bytes a call
_LARGEST = 1 << 30  # bytes: more are not written for a trial
_SECONDS = 2.0


class BloatedSave(Rule):
    """Compares what torch.save wrote with what was reachable."""

    id = "bloated-save"
    title = "files hold what no one can reach"
    measures = (
        "Every file that a `torch.save` of the run writes is looked at: how many bytes of its storages no saved tensor "
        "reaches. It speaks of a line if that is at least a tenth of the file and a megabyte a call, and writes as "
        "many bytes both ways, in the same folder, to tell what the waste takes."
    )
    costs = (
        "`torch.save` writes the whole storage behind each tensor. A slice of a large tensor saves the large tensor: "
        "disk, time to write, and time to load."
    )
    wrong = (
        "Views that share a storage and are saved together reach each other's bytes, so they are no waste and not "
        "counted. Files that are written to a buffer, not to a path, are not looked at."
    )
    cure = (
        "`cw.save(obj, path)` writes only what is reachable, keeps sharing intact, and plain `torch.load` reads the "
        "file. `cordwood trim old.pt small.pt` mends files that are there already. Without Cordwood: `tensor.clone()` "
        "before saving, which also breaks sharing."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        if not any(call.looked_at for call in evidence.saves):
            raise Abstain(evidence.missing.get("saves", NO_SAVES))
        return [_finding(call, evidence) for call in evidence.saves if _is_bloated(call)]


def _is_bloated(call: SaveCall) -> bool:
    wasted = call.wasted_bytes
    return call.looked_at > 0 and wasted >= _SHARE * call.stored_bytes and wasted >= _MUCH * call.looked_at


def _finding(call: SaveCall, evidence: Evidence) -> Finding:
    stored, wasted = call.stored_bytes // call.looked_at, call.wasted_bytes // call.looked_at
    gain = _replayed(call, stored, stored - wasted, evidence.seconds_to_spend)
    told = ""
    if gain is not None and gain.is_sure and gain.after_ms > 0:
        told = f"; to write that takes {milliseconds(gain.saves_ms)} of {milliseconds(gain.before_ms)}, each time"
    # Milliseconds of a step are not promised: most files are written between steps, once in an epoch.
    return Finding(
        rule=BloatedSave.id,
        message=(
            f"{wasted / stored:.0%} of what torch.save writes here is reached by nothing: {human(wasted)} of "
            f"{human(stored)} a file, {call.calls} times in this run{told}"
        ),
        fix=_fix(call),
        place=call.place,
        verified="replay" if told else "measured",
        level="medium",
    )


def _fix(call: SaveCall) -> str:
    line = call.place.source if call.place is not None else ""
    line = line.replace("torch.save(", "cw.save(", 1) if "torch.save(" in line else f"cw.save(..., {call.path!r})"
    return (
        "import cordwood as cw\n\n"
        f"{line}  # torch.load reads the file\n"
        f"# files that are there already:  cordwood trim {shlex.quote(call.path)} smaller.pt"
    )


def _replayed(call: SaveCall, stored: int, reached: int, seconds: float) -> Gain | None:
    """Writing so many bytes both ways, where the script writes; None if there is no time, no folder or no space."""
    folder = Path(call.path).absolute().parent
    if seconds <= 0 or stored > _LARGEST or not folder.is_dir():
        return None
    sizes = [torch.zeros(nbytes, dtype=torch.uint8) for nbytes in (stored, reached)]
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".cordwood-doctor-") as inside:

            def write(data: torch.Tensor) -> float:
                begin = perf_counter()
                torch.save(data, Path(inside, "trial.pt"))
                return 1e3 * (perf_counter() - begin)

            return measure_pair(lambda: write(sizes[0]), lambda: write(sizes[1]), min(seconds, _SECONDS))
    except OSError:
        return None
