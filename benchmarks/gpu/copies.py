"""Checks of the way of batches to the device: pinned memory, streams, `cw.prefetch` and `cw.Loader`.

In all loops over batches the device is kept busy and the host does not wait, so that later copies run while earlier
batches are still to be used: a copy that is read too early, or memory that is used again too early, gives other values.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch

import cordwood as cw
from benchmarks.gpu.checks import Check, Setting, SkippedCheck
from cordwood.feed.device.mover import pinned
from cordwood.feed.device.streams import streams_for

_BUSY_MS = 5.0  # of the device, for each batch
_SAMPLES = 640


def memory_for_copies_is_pinned(setting: Setting) -> str:
    if setting.device.type == "cpu":
        raise SkippedCheck("copies to the CPU need no pinned memory")
    if not pinned((1024,), torch.uint8).is_pinned():
        if setting.copies_in_background:
            raise AssertionError(
                "memory is not pinned: torch.empty(..., pin_memory=True) fails or gives ordinary memory"
            )
        raise SkippedCheck(f"torch pins no memory for {setting.device.type}")
    return ""


def copies_have_a_stream_of_their_own(setting: Setting) -> str:
    if not setting.copies_in_background:
        raise SkippedCheck(f"on {setting.device.type} batches are copied by a plain .to()")
    streams = streams_for(setting.device)
    assert streams is not None, f"torch.{setting.device.type} has no Stream, stream or current_stream"
    before = torch.accelerator.current_stream(setting.device)
    with streams.copying():
        inside = torch.accelerator.current_stream(setting.device)
    assert inside != before, "copies run on the stream that computes"
    after = torch.accelerator.current_stream(setting.device)
    assert after == before, "the thread's stream is another one after a copy"
    return ""


def prefetched_batches_equal_those_on_the_host(setting: Setting) -> str:
    made = list(islice(_numbered_batches(), 40))
    got = _kept(setting, cw.prefetch(iter(made), device=setting.device, depth=4))
    _assert_same(setting, got, made)
    return f"{len(got)} batches"


def batches_of_all_kinds_arrive(setting: Setting) -> str:
    """Containers stay what they are; sparse tensors and objects with a `to` move, too; the rest is left alone."""
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    dense, pair, empty = torch.arange(6.0).view(2, 3).t(), torch.tensor([1, 2]), torch.empty(0, 3)
    batch: dict[str, Any] = {
        "dense": dense,
        "pair": (pair, ["a", "b"]),
        "sparse": torch.eye(3).to_sparse(),
        "packed": packed,
        "empty": empty,
        "text": "as it is",
    }
    for got in cw.prefetch([batch, batch], device=setting.device):
        tensors = [got["dense"], got["pair"][0], got["sparse"].to_dense(), got["packed"].data, got["empty"]]
        _assert_same(setting, tensors, [dense, pair, torch.eye(3), packed.data, empty])
        assert got["pair"][1] == ["a", "b"], f"the list beside a tensor became {got['pair'][1]!r}"
        assert got["text"] == "as it is", f"text became {got['text']!r}"
    return ""


def loader_batches_equal_those_on_the_host(setting: Setting) -> str:
    store = _store(setting)
    for epoch in range(3):  # memory of the first epoch is used again
        expected = cw.Loader(store, 16, True)
        loader = cw.Loader(store, 16, True, device=setting.device, prefetch=4)
        expected.set_epoch(epoch)
        loader.set_epoch(epoch)
        _assert_same(setting, _kept(setting, loader), list(expected))
    return f"3 epochs of {_SAMPLES} samples"


def loader_transform_runs_on_the_device(setting: Setting) -> str:
    seen = []

    def prepare(batch: Any) -> Any:
        seen.append(batch[0].device)
        return batch[0].to(torch.int32) * 3 - 1, batch[1]

    store = _store(setting)
    got = _kept(setting, cw.Loader(store, 16, True, device=setting.device, transform=prepare))
    assert set(seen) == {setting.device}, f"transform got batches on {set(seen)}, not on {setting.device}"
    _assert_same(setting, got, [(image.to(torch.int32) * 3 - 1, label) for image, label in cw.Loader(store, 16, True)])
    return ""


def loader_normalizes_as_on_the_host(setting: Setting) -> str:
    store = _store(setting)
    options: dict[str, Any] = {
        "normalize": {"image": ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])},
        "augment": {"image": [cw.augment.RandomCrop(32), cw.augment.RandomFlip()]},
        "channels_last": True,
    }
    got = _kept(setting, cw.Loader(store, 16, True, device=setting.device, **options))
    _assert_same(setting, got, list(cw.Loader(store, 16, True, **options)))
    layouts = {images.is_contiguous(memory_format=torch.channels_last) for images, _ in got}
    assert layouts == {True}, "images are not in channels_last on the device"
    return ""


def loader_left_early_starts_anew(setting: Setting) -> str:
    store = _store(setting)
    loader = cw.Loader(store, 16, True, device=setting.device, prefetch=8)
    expected = cw.Loader(store, 16, True)
    for epoch in range(5):
        loader.set_epoch(epoch)
        expected.set_epoch(epoch)
        _assert_same(setting, _kept(setting, islice(loader, 3)), list(islice(expected, 3)))
    return ""


def loader_resumes_on_the_device(setting: Setting) -> str:
    store = _store(setting)
    loader = cw.Loader(store, 16, True, device=setting.device)
    batches = iter(loader)
    first = _kept(setting, islice(batches, 7))
    resumed = cw.Loader(store, 16, True, device=setting.device)
    resumed.load_state_dict(loader.state_dict())
    _assert_same(setting, first + _kept(setting, resumed), list(cw.Loader(store, 16, True)))
    return ""


def copies_run_while_the_device_computes(setting: Setting) -> str:
    if not setting.copies_in_background:
        raise SkippedCheck(f"nothing is copied in the background on {setting.device.type}")
    memory = torch.empty(64 << 20, dtype=torch.uint8).pin_memory()
    copy = setting.timed(lambda: memory.to(setting.device, non_blocking=True))
    copy = min(copy, *(setting.timed(lambda: memory.to(setting.device, non_blocking=True)) for _ in range(5)))
    work = setting.work(copy)
    count = 20

    def loop(batches: Iterable[Any]) -> None:
        for _ in batches:
            work()

    one_after_the_other = setting.timed(lambda: loop(memory.to(setting.device) for _ in range(count)))
    beside = setting.timed(lambda: loop(cw.prefetch([memory] * count, device=setting.device)))
    figures = f"{beside:.0f} ms, one after the other {one_after_the_other:.0f} ms ({count} copies of 64 MiB)"
    assert beside < 0.9 * one_after_the_other, f"copies do not overlap with computation: {figures}"
    return figures


def _numbered_batches() -> Iterator[torch.Tensor]:
    """Batches of a megabyte each, all different."""
    numbers = torch.arange(1 << 18, dtype=torch.int32)
    return (numbers * 7 + number for number in range(1 << 20))


def _store(setting: Setting) -> Any:
    path = setting.folder / "images.cordwood"
    if not path.exists():
        generator = torch.Generator().manual_seed(0)
        with cw.Writer(path) as writer:
            for number in range(_SAMPLES):
                image = torch.randint(256, (3, 48, 48), dtype=torch.uint8, generator=generator)
                writer.append({"image": image, "label": number})
    return cw.open(path).select("image", "label")


def _kept(setting: Setting, batches: Iterable[Any]) -> list[Any]:
    """Copies of all batches, made on the device behind other work, without waiting for it in between."""
    busy = setting.work(_BUSY_MS)
    kept = []
    for batch in batches:
        busy()
        tensors = batch if isinstance(batch, tuple | list) else [batch]
        kept.append(type(tensors)(tensor.clone() for tensor in tensors))
        del batch, tensors  # their memory is free for later batches from here on
    setting.wait()
    return [each[0] if len(each) == 1 else each for each in kept]


def _assert_same(setting: Setting, got: list[Any], expected: list[Any]) -> None:
    assert expected, "there are no batches to compare with"
    assert len(got) == len(expected), f"{len(got)} batches instead of {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        pairs = [(ours, theirs)] if isinstance(ours, torch.Tensor) else zip(ours, theirs, strict=True)
        for on_device, on_host in pairs:
            assert on_device.device == setting.device, f"batch {number} is on {on_device.device}"
            assert on_device.dtype == on_host.dtype, f"batch {number} is {on_device.dtype}, not {on_host.dtype}"
            wrong = (on_device.cpu() != on_host).sum().item()
            assert not wrong, f"batch {number} differs from the host's in {wrong:,} of {on_host.numel():,} values"


CHECKS: list[Check] = [
    memory_for_copies_is_pinned,
    copies_have_a_stream_of_their_own,
    prefetched_batches_equal_those_on_the_host,
    batches_of_all_kinds_arrive,
    loader_batches_equal_those_on_the_host,
    loader_transform_runs_on_the_device,
    loader_normalizes_as_on_the_host,
    loader_left_early_starts_anew,
    loader_resumes_on_the_device,
    copies_run_while_the_device_computes,
]
