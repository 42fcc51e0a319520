"""Recreates the tensors that a replay starts from, with the strides and the shared memory of the real ones.

    leaves = Leaves(tape)
    with leaves.ready({}) as tensors: ...       # by number

Integers and booleans have their real values where those were kept. Other values are drawn from the sample that was
taken of each leaf, so that they are alike in sign, size and sparseness, and nothing overflows that did not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from cordwood.common.resources import available_memory
from cordwood.common.text import human
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.tape import Tape, TapeLeaf, TensorMeta, written

_MOST_BYTES = 4 << 30
_ROOM = 0.6  # of the memory that is free
_SEED = 7
_BLOCK = 1 << 16  # values that are drawn; a longer leaf repeats them


class Leaves:
    """Memory for a tape's leaves, shared by all replays of it."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._devices = {leaf.meta.device for leaf in tape.leaves.values()} | {
            meta.device for op in tape.ops for meta in op.outputs
        }
        self._wait_for = [device for device in self._devices if device.type != "cpu"]
        self._tensors: dict[int, torch.Tensor] = {}
        self._copies: dict[tuple[int, torch.memory_format], torch.Tensor] = {}  # of leaves that are mended once
        self._changed_in_step = _changed_outside_of_the_optimizer(tape)
        self._pristine: dict[int, torch.Tensor] = {}

    def wait(self) -> None:
        """Until the devices have done what they were asked to do; free on a CPU."""
        for device in self._wait_for:
            torch.accelerator.synchronize(device)

    @contextmanager
    def ready(self, changes: Mapping[int, torch.memory_format]) -> Iterator[dict[int, torch.Tensor]]:
        """All leaves by number, for one run with these changes; the script's random numbers are left alone."""
        cuda = [device.index or 0 for device in self._wait_for if device.type == "cuda"]
        with torch.random.fork_rng(devices=cuda), torch.no_grad():
            torch.default_generator.manual_seed(_SEED)
            if not self._tensors:
                self._make()
            for number, values in self._pristine.items():
                self._tensors[number].copy_(values)
            tensors = dict(self._tensors)
            for number, memory_format in changes.items():
                leaf = self._tape.leaves.get(number)
                if leaf is not None and leaf.is_kept:
                    tensors[number] = self._mended(number, memory_format)
            yield tensors

    def like(self, number: int) -> torch.Tensor | None:
        """A leaf with these strides, to try things on; None if that number is not a leaf's."""
        with self.ready({}) as tensors:
            return tensors.get(number)

    def _mended(self, number: int, memory_format: torch.memory_format) -> torch.Tensor:
        copy = self._copies.get((number, memory_format))
        if copy is None:
            copy = self._tensors[number].contiguous(memory_format=memory_format)
            self._copies[number, memory_format] = copy
        return copy

    def _make(self) -> None:
        together: dict[int, list[TapeLeaf]] = {}
        for leaf in self._tape.leaves.values():
            together.setdefault(leaf.meta.storage, []).append(leaf)
        sizes = {storage: max(_end(leaf.meta) for leaf in leaves) for storage, leaves in together.items()}
        if sum(sizes.values()) > _MOST_BYTES:
            raise Abstain(
                f"the tensors that a step starts from take {human(sum(sizes.values()))}; "
                f"up to {human(_MOST_BYTES)} are made again for a replay"
            )
        _check_room(self._tape)
        for storage, leaves in together.items():
            memory = torch.empty(sizes[storage], dtype=torch.uint8, device=leaves[0].meta.device).untyped_storage()
            # Where views overlap, those with real values come last.
            for leaf in sorted(leaves, key=lambda leaf: leaf.values is not None):
                meta = leaf.meta
                tensor = torch.empty(0, dtype=meta.dtype, device=meta.device)
                tensor.set_(memory, meta.offset, meta.shape, meta.stride)
                self._tensors[meta.number] = tensor
                if meta.nbytes:
                    _fill(tensor, leaf)
        for number in self._changed_in_step:
            if number in self._tensors:
                self._pristine[number] = self._tensors[number].clone()


def _check_room(tape: Tape) -> None:
    """The script's own tensors may still be there: what a replay takes is on top of them."""
    for device, needed in peak_bytes(tape).items():
        if device.type == "cpu":
            room = available_memory()
        elif device.type == "cuda":
            room = torch.cuda.mem_get_info(device)[0]
        else:
            continue
        if needed > _ROOM * room:
            raise Abstain(f"a replay of the step takes {human(needed)} of memory, and {human(room)} are free")


def peak_bytes(tape: Tape) -> dict[torch.device, int]:
    """The most memory that a replay holds at a time, by device."""
    sizes: dict[int, int] = {}
    devices: dict[int, torch.device] = {}
    last: dict[int, int] = {}
    metas = [(leaf.meta, len(tape.ops)) for leaf in tape.leaves.values()]
    metas += [(meta, index) for index, op in enumerate(tape.ops) for meta in (*op.inputs, *op.outputs)]
    for meta, index in metas:
        sizes[meta.storage] = max(sizes.get(meta.storage, 0), _end(meta))
        devices[meta.storage] = meta.device
        last[meta.storage] = max(last.get(meta.storage, 0), index)
    held: dict[int, int] = {leaf.meta.storage: sizes[leaf.meta.storage] for leaf in tape.leaves.values()}
    now = Counter[torch.device]()
    for storage, size in held.items():
        now[devices[storage]] += size
    most = dict(now)
    for index, op in enumerate(tape.ops):
        for storage in {meta.storage for meta in op.outputs} - held.keys():
            held[storage] = sizes[storage]
            now[devices[storage]] += sizes[storage]
            most[devices[storage]] = max(most.get(devices[storage], 0), now[devices[storage]])
        for storage in {meta.storage for meta in (*op.inputs, *op.outputs)}:
            if last[storage] == index:
                now[devices[storage]] -= held.pop(storage)
    return most


def _reach(meta: TensorMeta) -> int:
    """How many elements of its memory a tensor spans, from its first to its last."""
    if 0 in meta.shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.stride, strict=True))


def _end(meta: TensorMeta) -> int:
    """How far into its memory a tensor reaches, in bytes."""
    return (meta.offset + _reach(meta)) * meta.dtype.itemsize


def _fill(tensor: torch.Tensor, leaf: TapeLeaf) -> None:
    span = tensor.as_strided((_reach(leaf.meta),), (1,), leaf.meta.offset)
    if leaf.sample is None:
        span.zero_()
    else:
        drawn = leaf.sample[torch.randint(len(leaf.sample), (min(_BLOCK, len(span)),), device=tensor.device)]
        whole = len(span) // len(drawn) * len(drawn)
        span[:whole].view(-1, len(drawn)).copy_(drawn)
        span[whole:].copy_(drawn[: len(span) - whole])
    if leaf.values is not None:
        # A stride of 0 makes one element stand for many: it is written once.
        shape = [size if step else 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
        target = tensor.as_strided(shape, tensor.stride())
        target.copy_(leaf.values.as_strided(shape, leaf.values.stride()))


def _changed_outside_of_the_optimizer(tape: Tape) -> set[int]:
    """Leaves that a step writes to, other than parameters: they start every run with the same values."""
    changed = {number for op in tape.ops if op.phase != "optimizer" for number in written(op)}
    return changed & set(tape.leaves)
