"""Combines the samples of a batch by the rules of the Loader's ``collate`` argument.

    collation = Collation({"tokens": "pad", "boxes": "list"}, names=("tokens", "boxes", "label"))
    collation.field("tokens", [torch.tensor([1, 2]), torch.tensor([3])])   # Padded(values, lengths)
    collation.samples([{"tokens": ...}, {"tokens": ...}])                  # a batch of whole samples

A field without a rule is what the store makes of it: a tensor where shapes are equal, else a list. That such a field is
a list is told once, since code that expects tensors meets it in the middle of an epoch.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import torch

from cordwood.common.suggest import did_you_mean
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.feed.batches.padding import Fill, NewTensor, Padded, Shape, pad
from cordwood.feed.batches.sample_batch import SampleBatch, with_tensors
from cordwood.store import Filled, shown_names

PAD: Final = "pad"
LIST: Final = "list"
Collate = Literal["pad", "list"] | tuple[Literal["pad"], Fill]  # what a caller may ask for a field


Remark = tuple[str, str]  # what it is about, and the text of the warning


class CollateRule(NamedTuple):
    """What was asked for a field: a word, and what to fill up with."""

    word: str
    fill: Fill = 0


class Collation:
    """The rules of one loader.

    `options` is the ``collate=`` that a caller gave: None, a function that makes a batch of a list of samples, or a
    dict that has for names of fields ``"pad"``, ``("pad", value)`` or ``"list"``. `names` are the fields that there
    are, None if that is not known; with `transformed` there may be others, because a ``sample_transform`` makes them.
    `selected` are the names of a dataset's selection, whose samples are tuples without names. With `later`, warnings
    wait for `tell_waiting`: a thread that makes batches has no line of the user's to point to.
    """

    def __init__(
        self,
        options: Mapping[str, Collate] | Callable[[list[Any]], Any] | None = None,
        names: Iterable[str] | None = None,
        selected: Sequence[str] | None = None,
        transformed: bool = False,
        later: bool = False,
    ) -> None:
        self.function: Callable[[list[Any]], Any] | None = None
        self.rules: dict[str, CollateRule] = {}
        self.selected = None if selected is None else tuple(selected)
        self._told: set[str] = set()
        self._waiting: deque[str] | None = deque() if later else None  # threads may fill and empty it
        if isinstance(options, Mapping):
            self.rules = {name: _rule(name, asked) for name, asked in options.items()}
        elif callable(options):
            self.function = options
        elif options is not None:
            raise UsageError(f"collate takes a dict or a function, not {brief(options)}: {_EXAMPLE}")
        known = [] if names is None else list(names)
        self._unseen = self.rules.keys() - known  # names that samples are yet to show
        if self._unseen and names is not None and not transformed:
            raise UsageError(_unknown(sorted(self._unseen), known))

    # ---- one field of a batch --------------------------------------------------------------------------------------

    def field(self, name: str, value: Any, new: NewTensor | None = None) -> Any:
        """A field of a batch by its rule.

        `value` is a tensor of all samples, rows that are filled up already, or a list with what each sample has there.
        `new` gives the memory of what is padded.
        """
        if isinstance(value, Filled):
            return Padded(*value)
        rule = self.rules.get(name)
        if rule is not None:
            return self._by(rule, name, value, new)
        if isinstance(value, list) and name not in self._told and (shapes := _different(value)) is not None:
            self.tell([_about_ragged(name, *map(str, shapes))])
        return value

    def _by(self, rule: CollateRule, name: str, value: Any, new: NewTensor | None = None) -> Any:
        if rule.word == PAD:
            return pad(value, rule.fill, name, new)
        return list(value) if isinstance(value, torch.Tensor) else with_tensors(value)

    def tell(self, remarks: Iterable[Remark]) -> None:
        """Warn of what was not warned of before."""
        for about, text in remarks:
            if about not in self._told:
                self._told.add(about)
                if self._waiting is None:
                    warnings.warn(text, stacklevel=2)
                else:
                    self._waiting.append(text)

    def tell_waiting(self, stacklevel: int = 2) -> None:
        """Warn of what waits for it; `stacklevel` is counted from the caller, as in `warnings.warn`."""
        while self._waiting:
            warnings.warn(self._waiting.popleft(), stacklevel=stacklevel + 1)

    # ---- a batch of whole samples -----------------------------------------------------------------------------------

    def samples(self, samples: list[Any]) -> Any:
        """A batch of samples, by the caller's function or by the rules."""
        batch, remarks = self.quietly(samples)
        self.tell(remarks)
        return batch

    def quietly(self, samples: list[Any]) -> tuple[Any, list[Remark]]:
        """The batch, and what is to be told about it: worker processes leave that to the one that reads them."""
        if self.function is not None:
            return self.function(samples), []
        making = SampleBatch(self.selected, self._ruled)
        batch = making.of(samples)
        remarks = [_about_ragged(*found) for found in making.ragged]
        if self._unseen:
            # No error: a sample may lack a field, and so may a whole batch.
            unseen, self._unseen = sorted(self._unseen.difference(making.names)), set()
            if unseen:
                remarks.append(("", f"{_unknown(unseen, making.names)} in the first batch"))
        return batch, remarks

    def _ruled(self, name: str, values: list[Any]) -> tuple[bool, Any]:
        """Whether a field has a rule, and what it gives."""
        rule = self.rules.get(name)
        return (False, None) if rule is None else (True, self._by(rule, name, values))


_EXAMPLE: Final = "collate={'tokens': 'pad'}, {'tokens': ('pad', -100)}, {'tokens': 'list'} or collate=my_collate_fn"


def _rule(name: Any, asked: Any) -> CollateRule:
    if not isinstance(name, str):
        raise UsageError(f"collate is given by names of fields, not by {brief(name)}: {_EXAMPLE}")
    if isinstance(asked, str) and asked in (PAD, LIST):
        return CollateRule(asked)
    if isinstance(asked, tuple) and len(asked) == 2 and asked[0] == PAD and isinstance(asked[1], Fill):
        return CollateRule(PAD, asked[1])
    raise UsageError(
        f"collate of field {name!r} is {brief(asked)}, but it can be 'pad', ('pad', a number) or 'list': {_EXAMPLE}"
    )


def _unknown(unknown: list[str], known: list[str]) -> str:
    meant = did_you_mean(unknown[0], known)
    return f"collate names {shown_names(unknown)}, but the fields are {shown_names(known)}{meant}"


def _about_ragged(name: str, one: str, other: str) -> Remark:
    return name, (
        f"field {name!r} differs in shape within a batch ({one} and {other}), so its samples arrive as a list; choose "
        f"with the loader's option collate={{{name!r}: 'pad'}}, which gives a padded tensor and the lengths, or "
        f"collate={{{name!r}: 'list'}}, which gives a list always and no warning"
    )


def _different(values: list[Any]) -> tuple[Shape, Shape] | None:
    """Two shapes of a list of tensors, if there are two; None has none."""
    shapes = (tuple(value.shape) for value in values if isinstance(value, torch.Tensor))
    first = next(shapes, None)
    if first is None:
        return None
    other = next((shape for shape in shapes if shape != first), None)
    return None if other is None else (first, other)
