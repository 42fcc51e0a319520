"""Turns every form of the ``transform`` argument into one object that makes lists of samples out of a sample.

>>> transform = prepare_transform(lambda sample: None if sample["label"] == 9 else sample)
>>> transform.apply({"label": 3}, seed=17)
[{"label": 3}]
>>> transform.identity["name"]
"__main__:<lambda>"

A `Transform` goes to worker processes by cloudpickle, so lambdas and functions of a notebook work.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from cordwood.common.seeding import takes
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.packing.transform.batches import collate, cut
from cordwood.packing.transform.identity import TransformIdentity, identity_of
from cordwood.sources import named
from cordwood.store import shown_names
from cordwood.store.writing.first_samples import snapshot

_EXAMPLES = "a function of a sample, {'image': function of a field}, or 'module:name' of one"


def prepare_transform(transform: Any, *, batched: bool = False, version: str | None = None) -> "Transform":
    """What a caller gave for ``transform``, imported if it is a text, and checked as far as it can be without a sample.

    ::

        prepare_transform("mypkg.prep:prepare")
        prepare_transform({"image": torchvision.transforms.Compose([...])})
        prepare_transform(model_features, batched=True)     # takes and returns a batch
    """
    if isinstance(transform, str):
        transform = named(transform, "transform")
    if isinstance(transform, Mapping):
        functions = _resolved(transform)
        fields = {name: _Function(function) for name, function in functions.items()}
        return Transform(None, fields, batched, identity_of(functions, version))
    if transform is not None and not callable(transform):
        raise UsageError(f"transform is {brief(transform)}, but takes {_EXAMPLES}")
    if transform is None and batched:
        raise UsageError("batched=True is for a transform that takes a batch, and there is no transform")
    function = None if transform is None else _Function(transform)
    return Transform(function, {}, batched, identity_of(transform, version))


def _resolved(transform: Mapping[Any, Any]) -> dict[str, Any]:
    if not transform:
        raise UsageError("transform is an empty dict: it has a function for each field to change, {'image': function}")
    found = {}
    for name, function in transform.items():
        if not isinstance(name, str):
            raise UsageError(f"transform has {brief(name)} for the name of a field, but takes {_EXAMPLES}")
        value = named(function, f"transform of field {name!r}") if isinstance(function, str) else function
        if not callable(value):
            raise UsageError(f"transform of field {name!r} is {brief(value)}, but takes a function or 'module:name'")
        found[name] = value
    return found


class Transform:
    """What is done to every sample; made by `prepare_transform`.

    ``apply`` and ``apply_batch`` return lists: several samples, or none, may come of one. A parameter ``seed`` of the
    caller's function gets the seed, a parameter ``generator`` a torch.Generator that is set by it.
    """

    def __init__(
        self,
        function: "_Function | None",
        fields: "Mapping[str, _Function]",
        batched: bool,
        identity: TransformIdentity,
    ) -> None:
        self.batched = batched
        self.identity = identity
        self._function = function
        self._fields = dict(fields)

    def apply(self, sample: Any, seed: int) -> list[Any]:
        """The samples that come of one: none if the transform returned None or nothing."""
        if self._fields:
            return [self._with_fields(sample, seed)]
        if self._function is None:
            return [] if sample is None else [sample]
        return _several(self._function(sample, seed))

    def apply_batch(self, samples: Sequence[Any], seed: int) -> list[list[Any]]:
        """For every input the samples that came of it; one that is None is left out of the batch.

        A function that returns one row an input is understood so. Of fewer rows, or more, nobody can tell whose they
        are: they count for the inputs in their order, and what is left over for the last one.
        """
        given = [place for place, sample in enumerate(samples) if sample is not None]
        made: list[list[Any]] = [[] for _ in samples]
        if not given:
            return made
        batch = collate([samples[place] for place in given])
        if self._fields:
            result = self._with_fields(batch, seed)
        else:
            assert self._function is not None  # noqa: S101 - for the type checker: checked by prepare_transform
            result = self._function(batch, seed)
        rows = [] if result is None else cut(result)
        for number, row in enumerate(rows):
            made[given[min(number, len(given) - 1)]] += _several(row)
        return made

    def _with_fields(self, sample: Any, seed: int) -> Any:
        for name, function in self._fields.items():
            try:
                sample = _replaced(sample, name, functools.partial(function, seed=seed))
            except _Missing as missing:
                raise UsageError(
                    f"transform is given for field {name!r}, but the sample has {missing}: name one of those"
                ) from None
        return sample


class _Function:
    """A caller's function, called with what it asks for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_seed = takes(function, "seed")
        self._takes_generator = takes(function, "generator")

    def __call__(self, value: Any, seed: int) -> Any:
        extra: dict[str, Any] = {}
        if self._takes_seed:
            extra["seed"] = seed
        if self._takes_generator:
            extra["generator"] = torch.Generator().manual_seed(seed)
        try:
            return self._function(value, **extra)
        except StopIteration as error:
            # On its way through generators it would end the run, and nobody would know.
            raise RuntimeError("the transform raised StopIteration") from error


def _several(result: Any) -> list[Any]:
    """A list and what a generator makes are several samples; anything else is one, and None is none."""
    if isinstance(result, Iterator):  # it may use its memory again for the next sample, and so these are copies
        return [snapshot(sample) for sample in result if sample is not None]
    if isinstance(result, list):
        return [sample for sample in result if sample is not None]
    return [] if result is None else [result]


class _Missing(Exception):  # noqa: N818 - never leaves this file
    """A field that is not there; says what is."""


def _replaced(value: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """A sample with one field changed; the caller's own object stays as it is."""
    if isinstance(value, Mapping):
        key, rest = (name, "") if name in value else name.partition(".")[::2]
        if key not in value:
            raise _Missing(f"the fields {shown_names(list(map(str, value)))}")
        new = {**value, key: _replaced(value[key], rest, change) if rest else change(value[key])}
        return new if type(value) is dict else _like(value, new)
    if isinstance(value, tuple | list):
        keys = list(getattr(value, "_fields", map(str, range(len(value)))))
        key, _, rest = name.partition(".")
        if key not in keys:
            raise _Missing(f"the fields {shown_names(keys)}")
        items = list(value)
        place = keys.index(key)
        items[place] = _replaced(items[place], rest, change) if rest else change(items[place])
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    raise _Missing(f"no fields: it is {brief(value)}")


def _like(value: Mapping[str, Any], new: dict[str, Any]) -> Mapping[str, Any]:
    """An OrderedDict stays one; other mappings become dicts."""
    try:
        return type(value)(new)  # type: ignore[call-arg]
    except TypeError:
        return new
