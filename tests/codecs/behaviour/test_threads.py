"""Threads and processes: equal results for any number of threads, no GIL held, and life after fork and spawn."""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cordwood import codecs
from tests.codecs.support.definitions import Array
from tests.codecs.support.plans import ANS, GOALS
from tests.format.support.readers import same_bits
from tests.format.support.samples import random_bits, smooth

LARGE = smooth((3, 600, 500))  # several blocks


@pytest.mark.parametrize("goal", GOALS)
def test_the_number_of_threads_changes_nothing(goal: codecs.Goal) -> None:
    plan = codecs.plan(LARGE, goal)
    frame = codecs.encode(LARGE, plan)
    assert codecs.frame_info(frame).blocks > 2
    for threads in (1, 2, 8, 64):
        assert codecs.encode(LARGE, plan, threads=threads) == frame
        assert same_bits(codecs.decode(frame, threads=threads), LARGE)


@pytest.mark.parametrize("threads", [None, 1, 2, 8, 64, 2**40])
def test_batches_of_unequal_frames(threads: int | None) -> None:
    arrays = [random_bits("uint8", (size,), size) // 16 for size in (0, 1, 5, 300_000, 17, 0, 700_000, 4096)]
    frames = [codecs.encode(array, GOALS[i % 4]) for i, array in enumerate(arrays)]
    outs = [np.full_like(array, 255) for array in arrays]
    codecs.decode_into(frames, outs, threads)
    assert all(same_bits(out, array) for out, array in zip(outs, arrays, strict=True))


def test_other_threads_run_while_a_batch_is_decoded() -> None:
    """The other thread is let go just before the call, and may take the GIL only when it is given up: what it sees is
    a batch that is not done yet. It may be woken late, so it has several tries."""
    array = random_bits("uint8", (4 << 20,)) // 8
    frames = [codecs.encode(array, ANS)] * 4
    batch = np.empty((4, array.size), np.uint8)
    array[-1] = 200
    frames[-1] = codecs.encode(array, ANS)
    seen_unfinished: list[bool] = []

    def look() -> None:
        gate.acquire()
        seen_unfinished.append(int(batch[-1, -1]) != 200)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to give the GIL up
    try:
        for _ in range(30):
            batch[:] = 0
            gate = threading.Lock()
            gate.acquire()
            other = threading.Thread(target=look)
            other.start()
            gate.release()
            codecs.decode_into(frames, list(batch), threads=1)
            assert int(batch[-1, -1]) == 200
            other.join()
            if any(seen_unfinished):
                break
    finally:
        sys.setswitchinterval(interval)
    assert any(seen_unfinished)


def test_encoding_lets_other_threads_run() -> None:
    array = random_bits("uint8", (4 << 20,)) // 8
    events: list[str] = []

    def look() -> None:
        gate.acquire()
        events.append("looked")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for _ in range(30):
            events.clear()
            gate = threading.Lock()
            gate.acquire()
            other = threading.Thread(target=look)
            other.start()
            gate.release()
            codecs.encode(array, ANS)
            events.append("encoded")
            other.join()
            if events == ["looked", "encoded"]:
                break
    finally:
        sys.setswitchinterval(interval)
    assert events == ["looked", "encoded"]


def test_many_threads_at_once() -> None:
    arrays = [smooth((3, 50 + i, 60), seed=i) for i in range(16)]
    plan = codecs.plan(arrays, "small", own=True)

    def work(i: int) -> bool:
        array = arrays[i % 16]
        frame = codecs.encode(array, plan if i % 2 else GOALS[i % 4], threads=1 + i % 3)
        out = np.empty((2, *array.shape), np.uint8)
        codecs.decode_into([frame, frame], list(out), 1 + i % 4, plans=plan)
        return same_bits(out[0], array) and same_bits(out[1], array)

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(300)))


def in_child(work: Callable[[], bool]) -> int:
    """Forks; the exit status of a child that does this work, or is ended when it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of fork where there are threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def decodes(frames: list[bytes], arrays: list[Array], threads: int) -> bool:
    outs = [np.empty_like(array) for array in arrays]
    codecs.decode_into(frames, outs, threads)
    return all(same_bits(out, array) for out, array in zip(outs, arrays, strict=True))


def test_after_fork() -> None:
    arrays = [smooth((3, 100, 100), seed=i) for i in range(8)]
    frames = codecs.encode_many(arrays, "balanced")
    assert decodes(frames, arrays, 4)  # the pool is there now
    for threads in (1, 4):
        assert in_child(lambda threads=threads: decodes(frames, arrays, threads)) == 0  # type: ignore[misc]
    assert in_child(lambda: in_child(lambda: decodes(frames, arrays, 4)) == 0) == 0
    assert in_child(lambda: codecs.encode_many(arrays, "balanced", threads=3) == frames) == 0
    assert decodes(frames, arrays, 4)


@pytest.mark.slow
def test_fork_while_other_threads_decode() -> None:
    arrays = [smooth((16, 16), seed=i) for i in range(4)]
    frames = [codecs.encode(array, "balanced") for array in arrays]
    stop = threading.Event()

    def keep_busy(threads: int) -> None:
        while not stop.is_set():
            decodes(frames, arrays, threads)

    busy = [threading.Thread(target=keep_busy, args=(1 + i % 2,)) for i in range(4)]
    for thread in busy:
        thread.start()
    try:
        statuses = [in_child(lambda: decodes(frames, arrays, 2)) for _ in range(50)]
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    assert statuses == [0] * 50


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_worker_processes(method: str) -> None:
    arrays = [smooth((3, 40, 40), seed=i) for i in range(6)]
    frames = codecs.encode_many(arrays, "small", threads=2)
    with multiprocessing.get_context(method).Pool(2) as pool:
        decoded = pool.map(codecs.decode, frames)
        assert pool.map(codecs.encode, arrays) == [codecs.encode(array) for array in arrays]
        infos = pool.map(codecs.frame_info, frames)
    assert all(same_bits(one, array) for one, array in zip(decoded, arrays, strict=True))
    assert infos == [codecs.frame_info(frame) for frame in frames]
