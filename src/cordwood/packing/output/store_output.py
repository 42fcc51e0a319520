"""Results in the order of their inputs in, a store out; it can always be told how far the job is.

    output = Output(folder, options, source.classes, batch=1, failed=policy)
    output.take(first, inputs, result)
    output.checkpoint()                 # whatever happens now, another process goes on from here
    output.finish()
    output.stop()

The first samples tell the schema, and plans are chosen on them, as `cw.Writer` does; from then on samples come as
frames, and what is left to do here is to write them, and to note which inputs a shard holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from cordwood.errors import FormatError
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal import shard_log
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.first_samples_log import FirstSamples, Waiting
from cordwood.packing.journal.inputs import FAILED, InputEntry, InputsHeader, Position, ShardInputs, Totals
from cordwood.packing.journal.shard_log import Checkpoint, ShardLog
from cordwood.packing.output.accounting import Account, Walk
from cordwood.packing.output.first_samples import Beginning, settled_before
from cordwood.packing.workers.work import Result, SampleEncoder, Settled
from cordwood.sources import Input
from cordwood.store.format import manifest as manifests
from cordwood.store.format import shard_index
from cordwood.store.format.folder import OpenFolder, sync_parent
from cordwood.store.format.manifest import Manifest
from cordwood.store.writing.encode import Encoded
from cordwood.store.writing.open_shard import Aside
from cordwood.store.writing.options import Options
from cordwood.store.writing.pipeline import ShardSequence
from cordwood.store.writing.prepare import Prepared

OnFailure = Callable[[int, Input, Failure], None]


class Output:
    """The store of a job, and how far it is.

    `account` counts what has been written. `settled` is None until the schema is known. `failed` is told of every
    input that failed, in order, and may raise: then it is as if its unit had not come.
    """

    def __init__(
        self,
        folder: OpenFolder,
        options: Options,
        classes: Mapping[str, Sequence[str]],
        *,
        start: int,
        batch: int,
        threads: int,
        failed: OnFailure,
    ) -> None:
        self.path = folder.path
        self.account = Account(Position(start))
        self.next_input = start  # that is neither written nor being looked at
        self.settled: Settled | None = None
        self.stored_bytes = 0  # of frames, by this process
        self._batch = batch
        self._threads = threads
        self._failed = failed
        self._shards: ShardSequence | None = None
        self._encoder: SampleEncoder | None = None
        self._in_midst = False  # whether writing was left by an exception, so that samples and account do not agree
        self._logged = 0  # rows of the open shard that are in its log
        self._log: ShardLog | None = None
        self.first_samples = FirstSamples(self.path)
        self._waiting: list[Waiting] = []  # what is being looked at
        self._in_first = 0, 0  # inputs and samples of these that are in their log
        self._left: shard_log.LogContents | None = None  # by another process, of the shard that is next
        found = folder.manifest
        if found is not None and found.schema is not None and self._finds(folder):
            self.first_samples.remove()
            self._go_on(folder, found)
            return
        before = found or Manifest()
        goal, shard_bytes = options.goal or before.goal, options.shard_bytes or before.shard_bytes
        self.beginning = Beginning(self.path, Options(goal, shard_bytes, options.fields), classes)
        manifests.write(self.path, Manifest(goal=goal, shard_bytes=shard_bytes))
        shard_index.mend(self.path, shard_index.read(self.path))
        if found is None:
            sync_parent(self.path)
        self._look_again()

    def _look_again(self) -> None:
        """At the samples that another process has looked at."""
        for part in self.first_samples.read():
            self.beginning.restore(part.samples, part.classes)
            self._waiting += part.waiting
            self.next_input = part.next_input
        self._in_first = len(self._waiting), len(self.beginning)
        if self._waiting and self.beginning.full:
            self._begin()

    def _finds(self, folder: OpenFolder) -> bool:
        """Look for what another process left; whether there is anything."""
        if folder.shards:
            last = folder.shards - 1
            header = inputfiles.read_header(self.path, last) if inputfiles.path_of(self.path, last).exists() else None
            if header is None or header.totals.samples != folder.committed:
                told = "has no list of its inputs" if header is None else f"ends with number {header.totals.samples}"
                raise FormatError(
                    f"{self.path} has {folder.committed} samples, but its last shard {told}: somebody else has written "
                    "to it; pack to a store of its own"
                )
            self.account.position, self.account.totals = header.after, header.totals
            self.account.begin_shard()
        left = shard_log.read(self.path, folder.shards)
        there = shard_log.open_path(self.path, folder.shards).exists()
        if left is not None and there and left.checkpoint.first == self.account.position:
            self._left = left
        shard_log.remove_unfinished(self.path, keep=folder.shards if self._left is not None else None)
        return folder.shards > 0 or self._left is not None

    def _go_on(self, folder: OpenFolder, manifest: Manifest) -> None:
        self.next_input = self.account.position.input
        self._settle(manifest, settled_before(self.path, manifest), folder.committed, folder.shards)
        left = self._left
        if left is None or self._shards is None:
            return
        try:
            self._shards.begin()
        except FormatError:  # the disk has lost what it had promised to keep: the shard is packed again
            self._shards.stop()
            self._left = None
            shard_log.remove_unfinished(self.path, keep=None)
            self._settle(manifest, settled_before(self.path, manifest), folder.committed, folder.shards)
            return
        account, told = self.account, left.checkpoint
        account.position, account.totals = told.position, told.totals
        header = InputsHeader(told.first, told.position, told.totals)
        for entry in ShardInputs(str(self.path), header, left.lines).entries():
            account.lines.add(entry)
        self.next_input = account.position.input
        self._logged = self._shards.open.count if self._shards.open is not None else 0
        self._left = None

    def _settle(self, manifest: Manifest, settled: Settled, committed: int, shards: int) -> None:
        self.settled = settled
        self._encoder = SampleEncoder(settled, self._threads)
        self._shards = ShardSequence(
            self.path, manifest, settled.schema, committed, shards, ending=self._ending, aside=self._aside
        )

    @property
    def done(self) -> Totals:
        """What is written, and what is being looked at."""
        totals, waiting = self.account.totals, [one.entry.samples for one in self._waiting]
        return replace(
            totals,
            inputs=totals.inputs + len(waiting),
            samples=totals.samples + sum(count for count in waiting if count > 0),
            dropped=totals.dropped + waiting.count(0),
            failed=totals.failed + waiting.count(FAILED),
        )

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """What became of the inputs from number `first` on, the next one."""
        if result.raw is not None:
            result = self._look_at(first, inputs, result)
            first, inputs = first + len(inputs) - len(result.counts), inputs[len(inputs) - len(result.counts) :]
        start = 0
        for place in sorted(result.failures):
            unit = place - place % self._batch
            if unit > start:
                self._write(first + start, inputs[start:unit], *_cut(result, start, unit))
                start = unit
            self._failed(first + place, inputs[place], result.failures[place])
        self._write(first + start, inputs[start:], *_cut(result, start, len(inputs)))

    def _look_at(self, first: int, inputs: Sequence[Input], result: Result) -> Result:
        """Look at raw samples as long as that is needed; what remains of the result comes back encoded."""
        raw = result.raw or []
        place = 0
        while self.settled is None and place < len(raw):
            unit = range(place, min(place + self._batch, len(raw)))
            for each in unit:
                if result.counts[each] == FAILED:
                    self._failed(first + each, inputs[each], result.failures[each])
            for each in unit:
                try:
                    if result.counts[each] != FAILED:
                        self.beginning.add(raw[each], result.labels_kept)
                        self._in_midst = True
                except Exception as error:
                    result.counts[each] = FAILED
                    self._failed(first + each, inputs[each], Failure.of(error))
            # Without their handles, which may be whole samples: nobody knows how many inputs are dropped here.
            self._waiting += [
                Waiting(first + each, InputEntry(*inputs[each][1:], samples=result.counts[each])) for each in unit
            ]
            self.next_input = first + unit.stop
            self._in_midst = False
            place = unit.stop
            if self.beginning.full:
                self._begin()
        rest = Result(failures={each - place: why for each, why in result.failures.items() if each >= place})
        if self._encoder is not None:
            for each in range(place, len(raw)):
                count = result.counts[each]
                if count != FAILED:
                    try:
                        rest.raw_sizes += self._encoder.add(raw[each])
                    except Exception as error:
                        count = FAILED
                        rest.failures[each - place] = Failure.of(error)
                rest.counts.append(count)
            rest.parts = self._encoder.finish()
        return rest

    def settle(self) -> list[Prepared]:
        """The samples looked at are enough: fix schema and plans; the samples in their terms."""
        begun = self.beginning.settle()
        self._settle(begun.manifest, begun.settled, 0, 0)
        return begun.prepared

    def _begin(self) -> None:
        """Settle, and write what was looked at."""
        prepared = self.settle()
        assert self._encoder is not None  # noqa: S101 - for the type checker: made just now
        raw_sizes = self._encoder.add_prepared(prepared)
        self._write(*self._waited(), self._encoder.finish(), raw_sizes)

    def _waited(self) -> tuple[int, list[Input], list[int]]:
        """The inputs that were looked at: the number of the first, all of them, and their numbers of samples."""
        waiting, self._waiting = self._waiting, []
        inputs = [Input(None, *one.entry[:3]) for one in waiting]
        return waiting[0].number, inputs, [one.entry.samples for one in waiting]

    def _write(
        self, first: int, inputs: Sequence[Input], counts: list[int], parts: list[Encoded], raw_sizes: list[int]
    ) -> None:
        """Samples of whole units, and which inputs they are of."""
        if self._shards is None or not inputs:
            return
        self._in_midst = True
        skipped = self.account.position.samples
        walk = Walk(self.account, first, inputs, counts, raw_sizes, self._batch)
        for part in parts:
            done, skipped = min(skipped, len(part)), max(skipped - len(part), 0)
            while done < len(part):
                end = self._shards.add(part, done)
                self.stored_bytes += int(part.sizes[done:end].sum())
                full = self._shards.open is None or self._shards.open.full
                walk.go(end - done, full)
                done = end
        walk.finish()
        self._in_midst = False

    def _aside(self, number: int) -> Aside:
        left = self._left
        self._log = ShardLog(self.path, number, left.size if left is not None else 0)
        path = shard_log.open_path(self.path, number)
        return Aside(path) if left is None else Aside(path, left.rows, left.checkpoint.statistics)

    def _ending(self, number: int) -> AbstractContextManager[None]:
        account, log = self.account, self._log
        told = account.first, account.position, replace(account.totals), account.lines.text()
        account.begin_shard()
        self._logged, self._log = 0, None

        @contextmanager
        def ending() -> Iterator[None]:
            """The list of its inputs is there before a shard is, and its log no longer than it is needed."""
            inputfiles.write(self.path, number, *told)
            yield
            self.first_samples.remove()
            if log is not None:
                log.remove()

        return ending()

    def checkpoint(self) -> None:
        """Put all that has come on the disk, so that another process can go on behind it."""
        if self._in_midst:
            return
        if self.settled is None:
            self._keep_first()
        if self._shards is None or self._shards.open is None or self._log is None:
            return
        account, shard = self.account, self._shards.open
        rows, statistics = shard.sync(self._logged)
        told = Checkpoint(account.position, account.totals, account.first, statistics)
        self._log.append(told, rows, account.new_lines.text())
        account.new_lines.clear()
        self._logged = shard.count
        self.first_samples.remove()

    def _keep_first(self) -> None:
        """Put what is being looked at on the disk."""
        inputs, samples = self._in_first
        if len(self._waiting) > inputs:
            new = self.beginning.samples_from(samples)
            self.first_samples.append(self.next_input, self._waiting[inputs:], new, self.beginning.classes)
            self._in_first = len(self._waiting), len(self.beginning)

    def finish(self) -> None:
        """All inputs have come: the last shard, however small, is in its place when this returns."""
        if self.settled is None and len(self.beginning):
            self._begin()
        elif self._waiting:  # all of them without samples: there is nothing to write, but something to tell
            first, inputs, counts = self._waited()
            Walk(self.account, first, inputs, counts, [], self._batch).finish()
            self.first_samples.remove()
        if self._shards is not None:
            self._shards.finish()

    def stop(self) -> None:
        """End the threads; what was not finished stays where another process finds it."""
        if self._shards is not None:
            self._shards.stop()
        self.first_samples.close()
        if self._log is not None:
            self._log.close()


def _cut(result: Result, start: int, end: int) -> tuple[list[int], list[Encoded], list[int]]:
    """The counts, samples and sizes of some of a result's inputs."""
    counts = result.counts[start:end]
    if start == 0 and end == len(result.counts):
        return counts, result.parts, result.raw_sizes
    first = sum(count for count in result.counts[:start] if count > 0)
    last = first + sum(count for count in counts if count > 0)
    parts, place = [], 0
    for part in result.parts:
        low, high = max(first - place, 0), min(last - place, len(part))
        if low < high:
            parts.append(part.part(low, high))
        place += len(part)
    return counts, parts, result.raw_sizes[first:last]
