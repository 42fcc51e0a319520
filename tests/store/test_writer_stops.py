"""Writers that are stopped: killed, out of space, by an exception, by a fork. What was finished stays and goes on."""

import errno
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood.store.writing.appender import Writing
from tests.store.support.killhost import OPTIONS, KillHost, samples
from tests.store.support.photos import files_of, photo, write
from tests.store.support.samples import assert_same_sample

COUNT = 300
SAMPLES = samples(COUNT)


@pytest.fixture(scope="module")
def host() -> Iterator[KillHost]:
    host = KillHost()
    yield host
    host.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Memory, where a machine has some as a folder: hundreds of shards are synced here, and disks are slow at that."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK | os.X_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    made = files_of(write(tmp_path_factory.mktemp("whole") / "s", SAMPLES, **OPTIONS))
    assert sum(name.startswith("shard-") for name in made) > 8
    return made


def assert_a_prefix(path: Path) -> int:
    """The store can be read, and holds the first samples; how many."""
    dataset = cw.open(path)
    for number in {0, len(dataset) // 2, len(dataset) - 1} if len(dataset) else ():
        assert_same_sample(dataset[number], SAMPLES[number])
    return len(dataset)


def writing(writer: cw.Writer) -> Writing:
    state = writer._appender.state
    assert isinstance(state, Writing)
    return state


def go_on(path: Path, committed: int | None = None) -> None:
    with cw.Writer(path, mode="resume", **OPTIONS) as writer:
        assert committed is None or writer.committed == committed
        writer.extend(SAMPLES[writer.committed :])


@pytest.mark.slow
def test_killed_before_any_call_to_the_file_system(host: KillHost, whole: dict[str, bytes], folder: Path) -> None:
    calls = host.run(path=str(folder / "all"), count=COUNT)["calls"]
    assert files_of(folder / "all") == whole
    seen = set()
    for at in [*range(1, 30, 3), *range(30, calls, calls // 9)]:
        path = folder / str(at)
        assert host.run(path=str(path), count=COUNT, at=at) == {"killed": True}
        seen.add(assert_a_prefix(path) if (path / "store.json").exists() else -1)
        go_on(path)
        assert files_of(path) == whole, at
    assert {-1, 0} < seen  # before the store was there, before its first shard, and behind others
    assert len(seen) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_and_again(seed: int, host: KillHost, whole: dict[str, bytes], folder: Path) -> None:
    chance = random.Random(seed)
    path = folder / "s"
    before = 0
    for _ in range(4):
        told = host.run(path=str(path), count=COUNT, after=chance.randrange(1, 250))
        committed = assert_a_prefix(path)
        assert committed >= before  # nothing that was finished is lost
        before = committed
        if "killed" not in told:
            break
    go_on(path, before)
    assert files_of(path) == whole


def test_a_limit_on_the_size_of_files(host: KillHost, whole: dict[str, bytes], folder: Path) -> None:
    path = folder / "s"
    told = host.run(path=str(path), count=COUNT, limit=15000)
    assert told["errno"] == errno.EFBIG
    assert "shard-" in told["error"]
    assert 100 < told["committed"] < COUNT
    assert assert_a_prefix(path) == told["committed"]
    assert not list(path.rglob("*.part"))
    go_on(path, told["committed"])
    assert files_of(path) == whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=90k", "tmpfs", str(folder)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk: Path, whole: dict[str, bytes]) -> None:
    path = small_disk / "s"
    with pytest.raises(cw.StorageError, match="No space left on device") as caught:
        write(path, SAMPLES, **OPTIONS)
    assert caught.value.errno == errno.ENOSPC
    committed = assert_a_prefix(path)
    assert committed > 0
    assert any(f"{committed} samples are in" in note for note in caught.value.__notes__)
    with pytest.raises(cw.StorageError, match="No space left on device"):
        go_on(path, committed)
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    go_on(path)
    assert files_of(path) == whole


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("number", [1, 4, 9, 12, 15])
def test_a_call_that_fails(
    call: str, number: int, whole: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls, original = folder / "s", [0], getattr(os, call)

    def failing(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing)
        with pytest.raises(cw.StorageError, match="No space left on device"):
            write(path, SAMPLES, **OPTIONS)
    assert calls[0] >= number
    assert not list(path.rglob("*.part"))
    committed = assert_a_prefix(path) if (path / "store.json").exists() else 0
    go_on(path, committed)
    assert files_of(path) == whole


def test_after_an_error_the_writer_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = cw.Writer(folder / "s", **OPTIONS)
    for sample in SAMPLES:
        writer.append(sample)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(cw.StorageError, match="Input/output error") as caught:
            writer.extend(SAMPLES * 100)
    assert caught.value.__notes__ == [
        f"{writer.committed} samples are in {folder / 's'}; go on with cw.Writer(..., mode='resume')"
    ]
    with pytest.raises(cw.UsageError, match=r"writing failed \(StorageError: .*mode='resume'"):
        writer.append(SAMPLES[0])
    assert len(writer) == writer.committed == len(cw.open(folder / "s"))
    writer.close()
    cw.Writer(folder / "s", mode="append").close()  # the lock was given back


def take_and_raise(writer: cw.Writer, taken: list[Any], error: BaseException) -> None:
    writer.extend(taken)
    raise error


@pytest.mark.parametrize("error", [ZeroDivisionError("in the caller"), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("count", [0, 5, COUNT])
def test_an_exception_in_the_block_drops_what_is_pending(
    error: BaseException, count: int, whole: dict[str, bytes], folder: Path
) -> None:
    writer = cw.Writer(folder / "s", **OPTIONS)
    with pytest.raises(type(error)) as caught, writer:
        take_and_raise(writer, SAMPLES[:count], error)
    assert caught.value is error
    assert len(writer) == writer.committed == assert_a_prefix(folder / "s")
    assert not list((folder / "s").rglob("*.part"))
    with pytest.raises(cw.UsageError, match=f"{type(error).__name__} was raised while it was open"):
        writer.append(SAMPLES[0])
    go_on(folder / "s", writer.committed)
    assert files_of(folder / "s") == whole


def test_an_interrupt_while_a_chunk_is_handed_over_ends_the_writer(
    whole: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordwood.store.writing.encode.CHUNK_SAMPLES", 50)
    writer = cw.Writer(folder / "s", **OPTIONS)
    writer.extend(SAMPLES[:280])

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(writing(writer), "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.extend(SAMPLES * 3)
    with pytest.raises(cw.UsageError, match="writing failed"):
        writer.append(SAMPLES[0])
    go_on(folder / "s", writer.committed)
    assert files_of(folder / "s") == whole


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_no_part_in_it(
    whole: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordwood.store.writing.encode.CHUNK_SAMPLES", 60)
    writer = cw.Writer(folder / "s", **OPTIONS)
    writer.extend(SAMPLES[:290])
    writing(writer).wait()
    shard = writing(writer).shards.open
    assert shard is not None  # a file is being written
    child = os.fork()
    if child == 0:
        refused = 0
        uses: list[tuple[Any, ...]] = [(writer.append, SAMPLES[290]), (writer.extend, SAMPLES[290:]), (writer.close,)]
        for use, *given in uses:
            try:
                use(*given)
            except cw.UsageError as error:
                refused += "was forked from it" in str(error)
        writer.__exit__(None, None, None)
        writer.__exit__(ValueError, ValueError(), None)
        writer.__del__()
        shard.drop()  # as the garbage collector would
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    writer.extend(SAMPLES[290:])
    writer.close()
    assert files_of(folder / "s") == whole


def test_a_reader_sees_every_finished_shard_while_the_writer_is_at_work(folder: Path) -> None:
    lengths = []
    with cw.Writer(folder / "s", shard_bytes=30000) as writer:
        for number in range(9000):
            writer.append(photo(number % 50))
            if number % 1000 == 0:
                dataset = cw.open(folder / "s")
                lengths.append(len(dataset))
                assert lengths[-1] <= len(writer)
                for at in (0, lengths[-1] - 1) if lengths[-1] else ():
                    assert_same_sample(dataset[at], photo(at % 50))
    assert lengths == sorted(lengths)
    assert lengths[-1] > 0
    assert len(cw.open(folder / "s")) == 9000
