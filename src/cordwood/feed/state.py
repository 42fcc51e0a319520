"""The state of a Loader as a few numbers in plain JSON: what a checkpoint stores.

    {"version": 1, "epoch": 2, "consumed": 51200, "seed": 0, "shuffle": true, "samples": 1281167, "store": 8112,
     "sampler": 0, "drawn": 0, "drop_last": false, "pad": false}

`epoch` and `consumed` are the state; the rest tells which order they are a place in, so that a state is never taken for
one of something else. Nothing depends on the rank: all ranks have the same state, and any number of ranks with any
batch size may go on from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from cordwood.common.text import brief
from cordwood.errors import UsageError

VERSION: Final = 1
LAST_EPOCH: Final = 1 << 62
_MOST: Final = 1 << 64
_OPTIONS: Final = ("seed", "shuffle", "drop_last", "pad")
_REMEDIES: Final = {
    "store": "open the same store, with the same samples and fields chosen",
    "sampler": "give the same sampler",
    "samples": "give the same dataset and sampler",
}
_AFRESH: Final = "; or start afresh, with set_epoch(n) and without the state"


@dataclass(frozen=True)
class OrderIdentity:
    """What an order is determined by, and what becomes of its tail.

    `samples` are the places of an epoch, `store` and `sampler` fingerprints.
    """

    seed: int
    shuffle: bool
    samples: int
    store: int
    sampler: int
    drop_last: bool
    pad: bool


class OrderPosition(NamedTuple):
    """A place in an order: `drawn` is the fingerprint of what a torch sampler drew in that epoch, else 0."""

    epoch: int
    consumed: int
    drawn: int


def new_state(identity: OrderIdentity, place: OrderPosition) -> dict[str, Any]:
    """The state of a Loader, to be kept by the caller.

    ::

        json.dumps(new_state(identity, OrderPosition(epoch=2, consumed=51200, drawn=0)))
    """
    named = {field.name: getattr(identity, field.name) for field in fields(identity)}
    return {"version": VERSION, **place._asdict(), **named}


def read_state(state: object, identity: OrderIdentity) -> OrderPosition:
    """The place that a state tells, if it is one of this order; else UsageError lists all that differs.

    ::

        place = read_state(json.loads(text), identity)

    A state comes from a file, so it may be anything. What a torch sampler drew is compared when it has drawn:
    :func:`check_drawn`.
    """
    if not isinstance(state, Mapping):
        raise UsageError(f"the state is {brief(state)}, but is a dict that state_dict() gave")
    _check_version(state)
    expected = new_state(identity, OrderPosition(0, 0, 0))
    missing = [name for name in expected if name not in state]
    if missing:
        raise UsageError(f"the state has no {', '.join(missing)}: it is not one that a Loader's state_dict() gave")
    for name, like in expected.items():
        _check_value(name, state[name], like)
    differing = [name for name in (*_OPTIONS, *_REMEDIES) if state[name] != expected[name]]
    if differing:
        found = ", ".join(f"{name} {state[name]} in the state but {expected[name]} here" for name in differing)
        raise UsageError(f"the state is of another order: {found}. To resume, {_remedies(differing)}{_AFRESH}")
    if state["consumed"] > identity.samples:
        raise UsageError(
            f"the state says that {state['consumed']} samples of the epoch are consumed, but it has {identity.samples}"
            ": the state is damaged"
        )
    if state["epoch"] >= LAST_EPOCH:
        raise UsageError(f"the state is of epoch {state['epoch']}, but epochs are below {LAST_EPOCH}: it is damaged")
    if state["consumed"] and state["consumed"] == identity.samples:
        return OrderPosition(state["epoch"] + 1, 0, 0)  # all of it is: the next one begins
    return OrderPosition(state["epoch"], state["consumed"], state["drawn"])


def check_drawn(place: OrderPosition, drawn: int) -> None:
    """Whether a torch sampler drew for this epoch what it drew when the state was taken; UsageError if not."""
    if place.consumed and place.drawn != drawn:
        raise UsageError(
            f"the sampler draws other samples for epoch {place.epoch} (fingerprint {drawn}) than when the state was "
            f"taken ({place.drawn}), so the epoch cannot be resumed: give it a generator that is seeded alike, or "
            f"none, so that the Loader's seed counts{_AFRESH}"
        )


def _check_version(state: Mapping[Any, Any]) -> None:
    version = state.get("version")
    if type(version) is not int or version < 1:
        raise UsageError(f"the state has version {brief(version)}: it is not one that a Loader's state_dict() gave")
    if version > VERSION:
        raise UsageError(
            f"the state is of version {brief(version)}, but this Cordwood reads up to version {VERSION}: upgrade it"
        )


def _check_value(name: str, found: object, like: object) -> None:
    """Of the type that it was written with; numbers are whole and not negative."""
    if isinstance(like, bool):
        if type(found) is not bool:
            raise UsageError(f"the state's {name} is {brief(found)}, but is true or false")
    elif type(found) is not int or not 0 <= found < _MOST:
        raise UsageError(f"the state's {name} is {brief(found)}, but is a whole number from 0 to 2**64 - 1")


def _remedies(differing: list[str]) -> str:
    options = [name for name in differing if name in _OPTIONS]
    parts = [f"make the Loader with the {', '.join(options)} of the state"] if options else []
    return ", ".join([*parts, *(_REMEDIES[name] for name in differing if name in _REMEDIES)])
