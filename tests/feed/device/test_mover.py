"""Batches on their way to a device, on an accelerator that is not there: its stream is a list of copies to do."""

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cordwood.errors import UsageError
from cordwood.feed.device import streams as streams_module
from cordwood.feed.device.mover import Mover, Staged, pinned
from cordwood.feed.device.streams import DeviceStreams, device_of, streams_for

UNWRITTEN = -77


class LazyStreams:
    """Copies when it is told to, so that whoever does not wait reads what was there before."""

    def __init__(self) -> None:
        self.to_do: list[Callable[[], None]] = []
        self.done = 0
        self.is_copying = False
        self.pinned_memory: list[torch.Tensor] = []
        self.recorded: list[torch.Tensor] = []
        self.synchronized = 0

    @contextmanager
    def copying(self) -> Iterator[None]:
        self.is_copying = True
        yield
        self.is_copying = False

    def pinned(self, thing: Any) -> Any:
        assert self.is_copying
        if any(thing is known for known in self.pinned_memory):
            return thing
        self.pinned_memory.append(thing.clone())
        return self.pinned_memory[-1]

    def copy(self, thing: Any) -> Any:
        assert self.is_copying
        assert any(thing is known for known in self.pinned_memory)
        target = torch.full_like(thing, UNWRITTEN)
        # Whose memory it is matters to nobody but the Mover: the device reads wherever it was told to.
        source = weakref.ref(thing)

        def run() -> None:
            memory = source()
            assert memory is not None, "the memory was let go of before it was copied"
            target.copy_(memory)

        self.to_do.append(run)
        return target

    def event(self) -> int:
        assert self.is_copying
        return len(self.to_do)

    def reached(self, event: int) -> bool:
        return self.done >= event

    def synchronize(self, event: int) -> None:
        self.synchronized += 1
        self.run_to(event)

    def wait(self, event: int) -> None:
        self.run_to(event)

    def record(self, copied: torch.Tensor) -> None:
        self.recorded.append(copied)

    def run_to(self, event: int) -> None:
        while self.done < event:
            self.to_do[self.done]()
            self.done += 1


class Movable:
    def __init__(self) -> None:
        self.moved_to: list[Any] = []

    def to(self, device: Any) -> "Movable":
        self.moved_to.append(device)
        return self


def on_a_fake_device() -> tuple[Mover, LazyStreams]:
    lazy = LazyStreams()
    return Mover("meta", lazy), lazy


def test_a_batch_arrives_whole_and_only_then() -> None:
    mover, lazy = on_a_fake_device()
    batch: dict[str, Any] = {
        "image": torch.arange(6.0).view(2, 3),
        "labels": (torch.tensor([1, 2]), ["a", "b"]),
        "count": 2,
    }
    staged = mover.stage(batch)
    assert staged.batch["image"].unique().tolist() == [UNWRITTEN]
    arrived = mover.arrive(staged)
    assert arrived["image"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrived["labels"][0].tolist() == [1, 2]
    assert (arrived["labels"][1], arrived["count"]) == (["a", "b"], 2)
    assert [tensor.data_ptr() for tensor in lazy.recorded] == [
        arrived["image"].data_ptr(),
        arrived["labels"][0].data_ptr(),
    ]
    assert batch["image"].tolist() == [[0, 1, 2], [3, 4, 5]]  # the one on the host is as it was
    assert not lazy.is_copying


def test_waiting_for_a_batch_does_not_wait_for_those_behind_it() -> None:
    mover, lazy = on_a_fake_device()
    first, second = mover.stage([torch.ones(2)]), mover.stage([torch.zeros(2)])
    assert mover.arrive(first)[0].tolist() == [1, 1]
    assert second.batch[0].tolist() == [UNWRITTEN, UNWRITTEN]
    assert (lazy.done, len(lazy.to_do)) == (1, 2)
    assert mover.arrive(second)[0].tolist() == [0, 0]


def test_memory_is_held_until_it_was_copied_and_no_longer() -> None:
    mover, lazy = on_a_fake_device()
    memory = torch.arange(4)
    watched = weakref.ref(memory)
    lazy.pinned_memory.append(memory)
    staged = mover.stage({"x": memory})
    del memory
    lazy.pinned_memory.clear()
    mover.stage({"x": torch.zeros(1)})
    assert watched() is not None  # nobody else holds it, and the device has not read it yet
    assert mover.arrive(staged)["x"].tolist() == [0, 1, 2, 3]
    mover.stage({"x": torch.zeros(1)})
    assert watched() is None


def test_at_the_end_no_copy_is_under_way() -> None:
    mover, lazy = on_a_fake_device()
    for number in range(3):
        mover.stage(torch.full((2,), number))
    lazy.pinned_memory.clear()
    mover.finish()
    assert (lazy.done, lazy.synchronized) == (3, 3)
    mover.finish()
    assert lazy.synchronized == 3


def test_memory_is_held_also_when_the_rest_of_the_batch_fails() -> None:
    mover, lazy = on_a_fake_device()
    copy = lazy.copy

    def fails_for_the_second(thing: Any) -> Any:
        if lazy.to_do:
            raise RuntimeError("out of memory")
        return copy(thing)

    lazy.copy = fails_for_the_second  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="out of memory"):
        mover.stage([torch.ones(2), torch.ones(2)])
    lazy.pinned_memory.clear()
    mover.finish()
    assert lazy.done == 1


def test_what_no_stream_can_be_told_of_moves_when_it_arrives() -> None:
    mover, lazy = on_a_fake_device()
    movable = Movable()
    sparse = torch.eye(3).to_sparse()
    staged = mover.stage({"object": movable, "sparse": sparse, "dense": torch.ones(2), "text": "as it is"})
    assert movable.moved_to == []
    assert staged.batch["sparse"] is sparse
    arrived = mover.arrive(staged)
    assert movable.moved_to == [torch.device("meta")]
    assert (arrived["sparse"].device.type, arrived["sparse"].layout) == ("meta", torch.sparse_coo)
    assert len(lazy.recorded) == 1


def test_a_batch_with_nothing_to_copy_passes_as_it_is() -> None:
    mover, lazy = on_a_fake_device()
    batch = {"ids": [1, 2], "there already": torch.ones(2, device="meta")}
    staged = mover.stage(batch)
    assert (staged.event, staged.is_late) == (None, False)
    assert mover.arrive(staged) is batch
    assert lazy.to_do == []


def test_without_streams_everything_moves_when_it_arrives() -> None:
    mover = Mover("meta")
    batch = {"x": torch.ones(2, 3), "name": "as it is"}
    staged = mover.stage(batch)
    assert staged.batch is batch
    arrived = mover.arrive(staged)
    assert (arrived["x"].device.type, arrived["x"].shape, arrived["name"]) == ("meta", (2, 3), "as it is")
    mover.finish()


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_in_ordinary_memory_nothing_happens(device: Any) -> None:
    mover = Mover(device)
    batch: dict[str, Any] = {"x": torch.ones(2), "movable": Movable()}
    assert mover.arrive(mover.stage(batch)) is batch
    assert batch["movable"].moved_to == []
    assert mover.device is None


def test_memory_for_copies_is_there_with_and_without_an_accelerator() -> None:
    memory = pinned((2, 3), torch.float16)
    assert (memory.shape, memory.dtype) == ((2, 3), torch.float16)
    assert memory.is_pinned() == torch.accelerator.is_available()


# What a device's module is asked for, by a stand-in of torch.cuda that writes it down.


class Written:
    """A stand-in that writes down every call."""

    def __init__(self, name: str, log: list[tuple[Any, ...]]) -> None:
        self._name, self._log = name, log

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            shown = [arg._name if isinstance(arg, Written) else arg for arg in [*args, *named.items()]]
            self._log.append((self._name, method, *shown))
            return True if method == "query" else Written(f"{self._name}.{method}", self._log)

        return call


def stand_in(log: list[tuple[Any, ...]]) -> Any:
    module = Written("module", log)

    @contextmanager
    def stream(on: Any) -> Iterator[None]:
        log.append(("on", on._name))
        yield
        log.append(("off", on._name))

    def current_stream(device: torch.device) -> Written:
        return Written(f"the current stream of {device}", log)

    def new_stream(device: torch.device) -> Written:
        return Written(f"the stream of copies to {device}", log)

    return SimpleNamespace(Stream=new_stream, stream=stream, current_stream=current_stream, module=module)


def test_the_calls_of_a_real_device() -> None:
    log: list[tuple[Any, ...]] = []
    device = torch.device("cuda", 1)
    streams = DeviceStreams(device, stand_in(log))
    copying: AbstractContextManager[Any] = streams.copying()
    with copying:
        copied = streams.copy(streams.pinned(Written("tensor", log)))
        event = streams.event()
    assert streams.reached(event)
    streams.synchronize(event)
    streams.wait(event)
    streams.record(copied)
    stream, event_name = "the stream of copies to cuda:1", "the stream of copies to cuda:1.record_event"
    assert log == [
        ("on", stream),
        ("tensor", "pin_memory"),
        ("tensor.pin_memory", "to", device, ("non_blocking", True)),
        (stream, "record_event"),
        ("off", stream),
        (event_name, "query"),
        (event_name, "synchronize"),
        ("the current stream of cuda:1", "wait_event", event_name),
        ("tensor.pin_memory.to", "record_stream", "the current stream of cuda:1"),
    ]


def test_the_calls_that_a_device_needs_are_in_torch() -> None:
    for module in (torch.cuda, torch.xpu):
        for name in ("Stream", "stream", "current_stream", "current_device", "device_count", "is_available"):
            assert callable(getattr(module, name))
        for name in ("record_event", "wait_event"):
            assert callable(getattr(module.Stream, name))
        for name in ("query", "synchronize"):
            assert callable(getattr(module.Event, name))
    assert callable(torch.Tensor.record_stream)


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two devices of a kind that this build of torch has no driver for, the second of them the current one."""
    module = stand_in([])
    module.device_count, module.current_device, module.is_available = (lambda: 2), (lambda: 1), (lambda: True)
    monkeypatch.setattr(torch, "xpu", module)
    monkeypatch.setattr(streams_module, "_made", {})
    return module  # type: ignore[no-any-return]


def test_a_device_without_a_number_is_the_current_one(two_devices: SimpleNamespace) -> None:
    assert device_of("xpu") == torch.device("xpu", 1)
    assert device_of("xpu:0") == torch.device("xpu", 0)
    with pytest.raises(UsageError, match=r"'xpu:2' is not here: .* finds 2"):
        device_of("xpu:2")
    two_devices.is_available = lambda: False
    with pytest.raises(UsageError, match="finds 0"):
        device_of("xpu")


def test_there_is_one_stream_of_copies_a_device(two_devices: SimpleNamespace) -> None:
    first, second = torch.device("xpu", 0), torch.device("xpu", 1)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(streams_for(first))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [streams_for(first)] * 4
    assert streams_for(second) is not streams_for(first)
    del two_devices.stream
    assert streams_for(first) is None


@pytest.mark.parametrize("device", ["gpu", "cuda:x", 1.5, [1]])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(UsageError, match="no device that torch knows"):
        device_of(device)


def test_staged_is_light() -> None:
    assert Staged("batch") == ("batch", None, (), False)
