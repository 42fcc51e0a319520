"""cw.prefetch: somebody's own loader, run ahead in a thread."""

import copy
import multiprocessing
import pickle
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

from cordwood.errors import FeedError, UsageError
from cordwood.feed.ahead import background
from cordwood.feed.prefetching import prefetch
from tests.feed.support.own_process import CtrlC, run
from tests.store.support.forked import in_child


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cordwood-prefetch"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    assert threads() == []
    yield
    assert threads() == []


class Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> torch.Tensor:
        if number >= 40:
            raise IndexError(number)
        return torch.tensor(number)


class FailsAt(Numbers):
    def __getitem__(self, number: int) -> torch.Tensor:
        if number == 17:
            raise ArithmeticError("sample 17")
        return super().__getitem__(number)


@pytest.mark.parametrize("depth", [1, 2, 100])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_same_batches_in_the_same_order_as_often_as_the_source(depth: int, device: str | None) -> None:
    source = [torch.tensor([number]) for number in range(20)]
    batches = prefetch(source, device, depth)
    for _ in range(2):
        assert [batch is original for batch, original in zip(batches, source, strict=True)] == [True] * 20


def test_batches_come_on_the_device() -> None:
    source = [{"x": torch.ones(2, number), "name": "as it is"} for number in range(5)]
    for number, batch in enumerate(prefetch(source, "meta")):
        assert (batch["x"].device.type, batch["x"].shape, batch["name"]) == ("meta", (2, number), "as it is")  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stock_dataloader_gives_what_it_gives_alone(workers: int) -> None:
    def loader() -> "DataLoader[torch.Tensor]":
        torch.manual_seed(5)
        return DataLoader(Numbers(), batch_size=3, shuffle=True, num_workers=workers)

    alone = [batch.tolist() for batch in loader()]
    assert [batch.tolist() for batch in prefetch(loader())] == alone


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_dataloader_raises_comes_in_its_turn(workers: int) -> None:
    batches = iter(prefetch(DataLoader(FailsAt(), batch_size=4, num_workers=workers)))
    assert [next(batches).tolist() for _ in range(4)] == [list(range(n, n + 4)) for n in range(0, 16, 4)]
    with pytest.raises(ArithmeticError, match="sample 17"):
        next(batches)
    assert list(batches) == []
    batches.close()


def test_leaving_early_ends_a_dataloader_and_its_workers() -> None:
    before = set(multiprocessing.active_children())
    loader = DataLoader(Numbers(), batch_size=1, num_workers=1)
    batches = iter(prefetch(loader))
    next(batches)
    (worker,) = set(multiprocessing.active_children()) - before
    del batches
    assert not worker.is_alive()


def test_length_and_attributes_are_those_of_the_source() -> None:
    data = TensorDataset(torch.arange(10))
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=2, rank=0)
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    batches = prefetch(loader)
    assert (len(batches), batches.dataset, batches.batch_size) == (3, data, 2)
    batches.sampler.set_epoch(4)
    assert sampler.epoch == 4
    assert not hasattr(batches, "no_such_thing")
    assert copy.copy(batches).sampler is sampler
    assert [batch.tolist() for batch in pickle.loads(pickle.dumps(prefetch([torch.ones(1)])))] == [[1.0]]
    assert repr(prefetch([1], "cpu", 3)) == "cw.prefetch([1], device='cpu', depth=3)"


def test_one_without_a_length_has_none_and_is_true() -> None:
    batches = prefetch(number for number in range(3))
    assert not hasattr(batches, "__len__")
    assert batches
    assert list(batches) == [0, 1, 2]


def test_a_state_that_counts_what_was_not_received_is_not_passed_on() -> None:
    class Stateful(list[int]):
        def state_dict(self) -> dict[str, int]:
            return {"given": 3}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.loaded = state

    source = Stateful([1, 2])
    batches = prefetch(source)
    with pytest.raises(AttributeError, match=r"fetched ahead and never received; cw\.Loader"):
        batches.state_dict()
    batches.load_state_dict({"given": 1})
    assert source.loaded == {"given": 1}


def test_an_error_of_a_generator_has_its_traceback() -> None:
    def raises_in_the_source() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    batches = iter(prefetch(raises_in_the_source()))
    assert next(batches) == 1
    with pytest.raises(LookupError, match="no more") as caught:
        next(batches)
    assert "raises_in_the_source" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    with pytest.raises(StopIteration):
        next(batches)
    del batches


def test_leaving_early_closes_a_generator() -> None:
    closed = []

    def source() -> Iterator[int]:
        try:
            for number in range(1000):
                yield number
        finally:
            closed.append(number)

    for number in prefetch(source(), depth=2):
        if number == 3:
            break
    assert closed
    assert closed[0] < 10


def test_an_error_in_the_loop_ends_the_thread() -> None:
    def loop() -> None:
        for number in prefetch(iter(range(1000))):
            if number == 3:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()


def test_closing_ends_an_iteration() -> None:
    batches = iter(prefetch(range(100)))
    next(batches)
    batches.close()
    assert threads() == []
    assert list(batches) == []


def test_iterations_are_independent_of_each_other() -> None:
    batches = prefetch(range(4))
    assert [(a, b) for a in batches for b in batches] == [(a, b) for a in range(4) for b in range(4)]


def test_a_batch_that_was_received_is_kept_by_nobody_else() -> None:
    def source() -> Iterator[torch.Tensor]:
        for _ in range(10):
            yield torch.ones(3)

    batches = iter(prefetch(source()))
    first = weakref.ref(next(batches))
    next(batches)
    assert first() is None
    batches.close()


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_a_depth_that_keeps_nothing_ready_is_refused(depth: Any) -> None:
    with pytest.raises(UsageError, match="depth must be a whole number, 1 or more, got"):
        prefetch([1], depth=depth)


def test_what_gives_no_batches_is_refused() -> None:
    with pytest.raises(UsageError, match="not int"):
        prefetch(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no device that torch knows"):
        iter(prefetch([1], "gpu"))


def test_a_forked_process_is_told_to_begin_anew_and_can() -> None:
    source = prefetch(range(5))
    batches = iter(source)
    next(batches)

    def in_the_child() -> None:
        with pytest.raises(FeedError, match="begin a new one"):
            next(batches)
        assert list(source) == list(range(5))

    ended = in_child(in_the_child)
    assert ended.code == 0, ended.text
    assert list(batches) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_program_may_end_while_a_dataloader_with_workers_runs_ahead() -> None:
    printed = run(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        from cordwood.feed.prefetching import prefetch

        if __name__ == "__main__":
            loader = DataLoader(TensorDataset(torch.arange(1000)), batch_size=2, num_workers=2)
            batches = iter(prefetch(loader, "cpu"))
            print(next(batches)[0].tolist())
        """
    )
    assert printed == "[0, 1]\n"


def test_ctrl_c_leaves_the_loop_though_the_source_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "IMPATIENCE", 0.0)

    def in_the_child() -> None:
        ctrl_c = CtrlC()
        received, left = threading.Event(), threading.Event()

        def source() -> Iterator[int]:
            yield 1
            received.wait()
            ctrl_c.send()
            left.wait()
            yield 2

        def loop() -> None:
            for number in prefetch(source()):
                assert number == 1
                received.set()

        with pytest.raises(KeyboardInterrupt):
            loop()
        left.set()
        for thread in threads():
            thread.join()

    ended = in_child(in_the_child)
    assert ended.code == 0, ended.text
