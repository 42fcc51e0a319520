"""Tries whole batches of a dataset in memory instead of one sample after another.

    trial = try_whole_batches(loader, busy_ms=0.4, step_ms=2.9, seconds=10.0)
    trial.gain.saves_ms             # of a batch and the work with it
    trial.setting.num_workers       # 0 where whole batches need no workers

A DataLoader does that if its sampler gives lists of indices, and it is told to make no batches of its own: torch's
documented way, ``DataLoader(dataset, sampler=BatchSampler(...), batch_size=None)``. The batches must be the same bit
for bit, and have the same form, or nothing is tried.
"""

from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import Subset, TensorDataset

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import digest
from cordwood.doctor.measure.pairs import OVERTIME_SECONDS, Gain, in_turns
from cordwood.doctor.measure.stand_in_step import Consumer
from cordwood.doctor.trials.loader import (
    Setting,
    Turn,
    as_in_the_run,
    brief,
    check_can_try,
    index_batches,
    quiet,
    setting_of,
    trial_loader,
)
from cordwood.doctor.trials.pack_change import collates_as_usual

_COMPARED = 3  # batches
_NONE = Setting(0, None)


@dataclass(frozen=True)
class WholeTrial:
    """What came of it, and the setting that whole batches were loaded with."""

    gain: Gain
    setting: Setting


def is_made_of_tensors(dataset: Any) -> bool:
    """Whether it is a TensorDataset, or a part of one, that gets samples in torch's own way."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    kind = type(dataset)
    if not isinstance(dataset, TensorDataset) or hasattr(kind, "__getitems__"):
        return False
    return kind.__getitem__ is TensorDataset.__getitem__


def stacks_samples(loader: Any) -> bool:
    """Whether a loader stacks the samples of such a dataset by torch's own function."""
    return (
        getattr(loader, "batch_sampler", None) is not None
        and is_made_of_tensors(loader.dataset)
        and collates_as_usual(loader)
    )


def try_whole_batches(
    loader: Any, *, busy_ms: float, step_ms: float, seconds: float, device: Any = "cpu"
) -> WholeTrial:
    """The loader as it is and with whole batches, in turns; with workers, the better of its own number and none."""
    check_can_try(loader)
    end = perf_counter() + seconds
    current = best = setting_of(loader)
    with quiet():
        try:
            _check_same(loader)
            turn = Turn(loader, step_ms, seconds)
            consumer = Consumer(busy_ms, device, end + OVERTIME_SECONDS)
            if current.num_workers:
                consumer = as_in_the_run(consumer, lambda other: turn.ms(current, other), step_ms)
                looks = {setting: turn.ms(setting, consumer, whole=True) for setting in (_NONE, current)}
                best = min(looks, key=lambda setting: looks[setting])
            gain = in_turns(
                lambda: turn.ms(current, consumer),
                lambda: turn.ms(best, consumer, whole=True),
                end,
                current.num_workers,
            )
        except Abstain:
            raise
        except Exception as error:  # whatever tensors do that cannot be indexed by lists
            raise Abstain(f"whole batches could not be tried: {brief(error)}") from error
    return WholeTrial(gain, best)


def _check_same(loader: Any) -> None:
    batches = list(islice(index_batches(loader, _COMPARED), _COMPARED))
    now, other = (trial_loader(loader, batches, _NONE, whole=whole) for whole in (False, True))
    if any(_form(ours) != _form(theirs) for ours, theirs in zip(now, other, strict=True)):
        raise Abstain("a batch that is indexed as a whole is not what the loader gives now, so nothing is advised")


def _form(batch: Any) -> tuple[str, list[Any]]:
    """Bits, types and shapes, and how the tensors lie in memory."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    return digest(batch), [(tensor.stride(), tensor.device, tensor.requires_grad) for tensor in tensors]
