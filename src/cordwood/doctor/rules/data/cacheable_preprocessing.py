"""``cacheable-preprocessing``: preprocessing that gives the same samples in every epoch, and can be done once."""

import shutil
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from cordwood.common.numbers import milliseconds, percent
from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import LEAST_WAITING, Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Detail, Finding, Rule
from cordwood.doctor.measure.determinism import digest, is_kept_in_memory, random_numbers_kept, set_apart
from cordwood.doctor.measure.per_step import PerStep, pace_of
from cordwood.doctor.measure.stand_in_step import training_device
from cordwood.doctor.trials.pack import PackTrial, same_in_worker, try_packed
from cordwood.doctor.trials.pack_change import PackChange, change_for, check_order
from cordwood.doctor.trials.pack_part import PackablePart, part_to_pack
from cordwood.store import Dataset as Store

_LEAST_SHARE = 0.5  # of loading: below, it is not the preprocessing that costs
_NUMBERS = 8  # samples that are fetched twice
_FETCHING_SECONDS = 2.0  # for them, once
_COMMAND_SECONDS = 20.0  # for another process to import torch and the user's module


class CacheablePreprocessing(Rule):
    """Speaks where packing the dataset once was tried on a part of it, and training would wait less."""

    id = "cacheable-preprocessing"
    title = "preprocessing that could be done once"
    measures = (
        "Training waits for data at least 5% of the time. A few samples are fetched twice, with other random numbers, "
        "and are the same bit for bit, in this process and in a worker. Then some hundred samples are packed into a "
        "store in a temporary folder, and the loader as it is and a `cw.Loader` over that store feed, in turns, a "
        "stand-in that works as long as the training step does. The size of the whole store and samples per second are "
        "those of this trial."
    )
    costs = (
        "What gives the same result in every epoch is computed again in every epoch: files are opened, images decoded "
        "and resized, texts cut into tokens, while training waits, or by workers that take the cores from it."
    )
    wrong = (
        "A dataset that may change from epoch to epoch by itself (an attribute `epoch`) is left alone, and so are "
        "samples that are only handed out of memory. Where samples are random, only what comes before the random "
        "steps of a `transform` is packed. The trial reads a small store from the system's cache: a store much larger "
        "than memory on a slow disk may give less. The order of samples is another one than before, though as random."
    )
    cure = (
        "Pack the dataset once and read the store; the finding shows the exact command and lines.\n\n"
        "```sh\ncordwood pack train:make_dataset train.cordwood\n```\n\n"
        "```py\nimport cordwood as cw\n\n"
        'loader = cw.Loader(cw.open("train.cordwood"), batch_size=64, shuffle=True)\n```'
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps(at_least=20)
        waiting = steps.phase_share("wait")
        if waiting < LEAST_WAITING:
            return []
        seen = evidence.training_loader()
        if isinstance(getattr(seen.loader, "dataset", None), Store):
            return []  # packed already
        if seen.begins_for_every_batch:
            raise Abstain("a new iterator is begun for every batch: a trial shows nothing before that is mended")
        dataset = _checked(seen)
        evidence.need_seconds()
        numbers = _numbers(dataset)
        part = part_to_pack(dataset, numbers)
        if is_kept_in_memory(part.whole, numbers[0]):
            return []
        if part.why_not:
            return _told(seen, part, numbers)
        if not same_in_worker(seen.loader, part, numbers):
            raise Abstain("the same number gives another sample in a worker than here, so samples are random")
        pace = pace_of(evidence, steps)
        begin = perf_counter()
        trial = try_packed(
            seen.loader,
            part,
            numbers,
            busy_ms=pace.busy_ms,
            step_ms=pace.batch_ms,
            seconds=evidence.seconds_to_spend,
            device=training_device(evidence),
        )
        # Without workers nothing competes with training now, so no more than the waiting can be saved.
        most = pace.usual_ms * (1.0 if seen.loader.num_workers else waiting)
        saves, spread = pace.saved(trial.gain, most)
        if trial.share < _LEAST_SHARE or not pace.is_worth(saves, spread, MEDIUM_SHARE):
            return []
        left = max(evidence.seconds_to_spend - (perf_counter() - begin), _COMMAND_SECONDS)
        change = change_for(seen, numbers, [digest(part.whole[n]) for n in numbers], kept=part.kept, seconds=left)
        return [self._finding(seen, part, trial, change, pace, saves, spread)]

    def _finding(
        self,
        seen: LoaderSeen,
        part: PackablePart,
        trial: PackTrial,
        change: PackChange,
        pace: PerStep,
        saves: float,
        spread: float,
    ) -> Finding:
        free = shutil.disk_usage(Path.cwd()).free
        if trial.store_bytes > free:
            raise Abstain(
                f"a packed store would save {milliseconds(saves)} a step, but takes {human(int(trial.store_bytes))}, "
                f"and {human(free)} are free here"
            )
        now, then = (
            trial.batch_size * pace.batches / max(ms, 1e-3) * 1e3 for ms in (pace.usual_ms, pace.usual_ms - saves)
        )
        once = len(part.dataset) * trial.once_ms / 1e3
        message = (
            f"{part.what} gives the same samples in every epoch, bit for bit, and is {percent(trial.share)} of "
            f"the work of loading ({milliseconds(trial.packed_ms)} a sample). Packed once, training reads it at "
            f"{then:,.0f} samples/s instead of {now:,.0f}; the store of {len(part.dataset):,} samples takes "
            f"{human(int(trial.store_bytes))}"
        )
        return Finding(
            rule=self.id,
            message=message,
            fix=change.text,
            place=seen.made_at or seen.place,
            saves_ms=saves,
            spread_ms=spread,
            verified="trial",
            details=(_figures(trial, once),),
        )


def _checked(seen: LoaderSeen) -> Any:
    loader = seen.loader
    if not isinstance(loader, DataLoader):
        raise Abstain("the loader is no torch DataLoader, so it cannot be tried in another way")
    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise Abstain("the dataset gives no samples by number (an IterableDataset), so none can be fetched twice")
    if hasattr(dataset, "set_epoch") or hasattr(dataset, "epoch"):
        raise Abstain("the dataset knows of epochs, so samples may be others in each")
    check_order(loader)
    if len(dataset) < 2:
        raise Abstain("the dataset has fewer than two samples")
    return dataset


def _numbers(dataset: Any) -> list[int]:
    """Some samples from all over the dataset, fewer if each of them takes long."""
    begin = perf_counter()
    with random_numbers_kept(), suppress(Exception):  # what it raises is told when it is tried in earnest
        set_apart(dataset)[0]
    long = perf_counter() - begin
    count = int(min(max(_FETCHING_SECONDS / max(long, 1e-9), 2), _NUMBERS))
    return sorted({number * (len(dataset) - 1) // (count - 1) for number in range(count)})


def _told(seen: LoaderSeen, part: PackablePart, numbers: list[int]) -> list[Finding]:
    """What is always the same, though no change can be shown: for information, if it is most of the work."""
    times = []
    for dataset in (part.dataset, part.whole):
        begin = perf_counter()
        for number in numbers:
            dataset[number]
        times.append((perf_counter() - begin) * 1e3 / len(numbers))
    share = min(1.0, times[0] / times[1]) if times[1] else 0.0
    if share < _LEAST_SHARE:
        return []
    message = (
        f"{part.what} gives the same in every epoch and is {percent(share)} of the work of dataset[i] "
        f"({milliseconds(times[0])} of {milliseconds(times[1])}). It cannot be packed as it is, since {part.why_not}"
    )
    fix = (
        "Let the dataset return tensors or arrays there, pack that with cw.pack, and do the rest as "
        "cw.Loader(..., sample_transform=...)"
    )
    return [
        Finding(
            rule=CacheablePreprocessing.id, message=message, fix=fix, place=seen.made_at or seen.place, level="info"
        )
    ]


def _figures(trial: PackTrial, once_seconds: float) -> Detail:
    gain = trial.gain
    return Detail(
        "the trial",
        ("what", "as it is", "packed"),
        (
            ("from batch to batch", milliseconds(gain.before_ms), milliseconds(gain.after_ms)),
            ("samples that were packed to try it", "", f"{trial.packed:,}"),
            ("to pack everything, once, in one process: at most", "", f"{once_seconds:,.1f} s"),
        ),
    )
