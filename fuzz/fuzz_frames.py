"""Feeds damaged frames to the decoder and odd arrays to the encoder, for a stated time: run by ``make fuzz``.

    python fuzz/fuzz_frames.py --seconds 60 --seed 1

The build should have sanitizers, so that an access out of bounds ends the process. Every input is written to a mapped
file before it is used: after a crash the file named at the start holds the input that did it.
"""

import argparse
import faulthandler
import mmap
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.errors import FormatError
from fuzz.odd_arrays import OddArrays
from tests.format.support.craft import Array
from tests.format.support.formulas import FORMULAS
from tests.format.support.mutate import Mutator
from tests.format.support.readers import plan_of, reader, same_bits
from tests.format.support.samples import SAMPLES

LIMIT = 2**24
ROOM = 2**22  # of the file that keeps the last input
HANG = 120  # seconds in which two hundred cases must be done


@dataclass(frozen=True)
class Seed:
    """A good frame to damage, and what its header says of the blocks."""

    frame: bytes
    assets: bytes | None
    block_sizes: tuple[int, ...]

    @classmethod
    def of(cls, frame: bytes, assets: bytes | None = None) -> "Seed":
        owned = {} if not assets else {Assets(assets).hash: assets}
        header, _ = reader.read_header(frame, owned)
        return cls(frame, assets or None, tuple(size for size, _ in header.table))


class LastInput:
    """The input in work, kept outside the process's own memory."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cordwood-fuzz-")) / "last-input"
        self.path.write_bytes(bytes(ROOM))
        with self.path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), ROOM)

    def keep(self, frame: bytes, assets: bytes | None) -> None:
        """Sizes of frame and assets as u32, then both."""
        data = struct.pack("<II", len(frame), len(assets or b"")) + frame + (assets or b"")
        self.memory[: min(len(data), ROOM)] = data[:ROOM]

    def discard(self) -> None:
        self.memory.close()
        self.path.unlink()
        self.path.parent.rmdir()


def read_input(path: Path) -> tuple[bytes, bytes | None]:
    """The frame and the assets that ``LastInput`` kept."""
    data = path.read_bytes()
    frame_size, assets_size = struct.unpack("<II", data[:8])
    frame = data[8 : 8 + frame_size]
    return frame, data[8 + frame_size : 8 + frame_size + assets_size] or None


def corpus(odd: OddArrays) -> Iterator[Seed]:
    """Crafted frames, which use every feature, and what the encoder makes of arrays of every kind."""
    for crafted in (SAMPLES | FORMULAS).values():
        yield Seed.of(crafted.frame, crafted.assets)
    for _ in range(400):
        array, dtype = odd.array(2000)
        goal = odd.random.choice(codecs.GOALS[:3])
        plan = codecs.plan([array], goal, dtype=dtype, own=odd.random.random() < 0.4)
        yield Seed.of(codecs.encode(array, plan, dtype=dtype), plan.chains[0].assets.encoded)


class Fuzzer:
    """Counts what happened; anything but success and FormatError is raised."""

    def __init__(self, seed: int) -> None:
        self.mutator = Mutator(seed)
        self.odd = OddArrays(seed)
        self.seeds = list(corpus(self.odd))
        self.owners = [seed for seed in self.seeds if seed.assets]
        self.last = LastInput()
        self.counts: Counter[str] = Counter()

    def one_case(self) -> None:
        pick = self.mutator.random.random()
        if pick < 0.8:
            seed = self.mutator.random.choice(self.seeds)
            other = self.mutator.random.choice(self.seeds).frame
            self.feed(self.mutator.mutate(seed.frame, seed.block_sizes, other), seed.assets)
        elif pick < 0.9:
            seed = self.mutator.random.choice(self.owners)
            other = self.mutator.random.choice(self.owners).assets or b""
            self.feed(*self.mutator.mutate_assets(seed.frame, seed.assets or b"", other))
        else:
            self.odd.round_trip(lambda frame: self.last.keep(frame, None))
            self.counts["round trips"] += 1

    def feed(self, frame: bytes, assets: bytes | None) -> None:
        """Decodes in every way there is."""
        self.last.keep(frame, assets)
        # an array of NumPy ends where its memory ends: one byte read too many is seen, as with bytes it is not
        exact = np.frombuffer(frame, np.uint8).copy()
        try:
            plans = (plan_of(assets),) if assets else ()
            info = codecs.frame_info(exact)
            array = codecs.decode(exact, plans=plans, limit=LIMIT)
        except FormatError as error:
            self.counts[error.reason_name] += 1
            return
        self.counts["good"] += 1
        if array.shape != info.shape:
            raise AssertionError(f"decoded shape {array.shape}, but the header says {info.shape}")
        self.again(exact, plans, array)

    def again(self, frame: Array, plans: tuple[codecs.Plan, ...], array: Array) -> None:
        """A batch on two threads gives the same array, twice."""
        outs = [np.empty_like(array) for _ in range(2)]
        codecs.decode_into([frame, frame], outs, threads=2, plans=plans)
        if not all(same_bits(out, array) for out in outs):
            raise AssertionError("a batch on two threads gave another array than one frame on one thread")

    def run(self, seconds: float) -> int:
        start, cases = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            if cases % 200 == 0:  # each call starts a thread, which costs more than a case
                faulthandler.dump_traceback_later(HANG, exit=True)
            self.one_case()
            cases += 1
        faulthandler.cancel_dump_traceback_later()
        return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="FILE", help="feed only the input that this file kept")
    options = parser.parse_args()
    faulthandler.enable()
    fuzzer = Fuzzer(options.seed)
    if options.again:
        fuzzer.feed(*read_input(options.again))
        fuzzer.last.discard()
        print("no fault")
        return
    print(
        f"seed {options.seed}, {len(fuzzer.seeds)} good frames; each input is kept in {fuzzer.last.path}",
        flush=True,
    )
    start = time.monotonic()
    try:
        cases = fuzzer.run(options.seconds)
    except Exception:
        print(f"FAULT: the input is in {fuzzer.last.path}; feed it again with --again", file=sys.stderr, flush=True)
        raise
    fuzzer.last.discard()
    took = time.monotonic() - start
    for name, count in fuzzer.counts.most_common():
        print(f"{count:9,}  {name}")
    print(f"{cases:9,}  cases in {took:.0f} s ({cases / took:,.0f} a second), no fault")


if __name__ == "__main__":
    main()
