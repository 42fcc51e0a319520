"""What codecs, tensor files, stores, the Loader, packing and the doctor must reach, as data; judged by the median."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["met aim", "met must", "missed", "not measured"]


@dataclass(frozen=True)
class Goal:
    """`sense` says on which side of `must` and `aim` the measured ratio, or `count` of things, has to be."""

    key: str
    text: str
    sense: Literal["at least", "at most"]
    must: float
    aim: float | None = None
    unit: Literal["ratio", "count"] = "ratio"

    def verdict(self, measured: float | None) -> Verdict:
        """What the measured ratio is worth; None is a goal that was not measured."""
        if measured is None:
            return "not measured"
        if not self._reaches(measured, self.must):
            return "missed"
        return "met aim" if self.aim is not None and self._reaches(measured, self.aim) else "met must"

    def _reaches(self, measured: float, bar: float) -> bool:
        # Written so that a NaN reaches nothing.
        return measured >= bar if self.sense == "at least" else measured <= bar


GOALS = (
    Goal("small-size-webp", "`small`, normalised float32 photographs: size, of lossless WebP's", "at most", 1.06, 0.97),
    Goal("small-size-png", "`small`: size, of PNG's", "at most", 0.75),
    Goal("small-size-torch", "`small`: how many times smaller than torch.save", "at least", 13),
    Goal("small-speed-webp", "`small`: decoding speed, of WebP's", "at least", 2, 5),
    Goal("balanced-size-png", "`balanced`: size, of PNG's", "at most", 0.80, 0.75),
    Goal("balanced-speed-png", "`balanced`: decoding speed, of PNG's", "at least", 3.5, 6),
    Goal("balanced-speed-zip", "`balanced`: decoding speed, of reading the zipped .pt", "at least", 6, 15),
    Goal("fast-size-uint8", "`fast`: size, of the uint8 image's", "at most", 1.0),
    Goal("fast-speed-balanced", "`fast`: decoding speed, of `balanced`'s", "at least", 2, 5),
    Goal(
        "raw-batch",
        "raw uint8 to normalised float32, 64 at once, two threads: speed, of `copy_`'s",
        "at least",
        0.4,
        0.8,
    ),
    Goal("batch-threads", "`balanced`, 64 at once: two threads' speed, of one thread's", "at least", 1.6, 1.95),
    Goal("weights-float32-saved", "float32 weights, `small`: bytes saved, of what ZipNN saves", "at least", 1.0),
    Goal("weights-float32-speed-1", "float32 weights: decoding speed, of ZipNN's, one thread", "at least", 0.8, 1.5),
    Goal("weights-float32-speed-2", "float32 weights: decoding speed, of ZipNN's, two threads", "at least", 0.8, 1.5),
    Goal("weights-bfloat16-saved", "bfloat16 weights, `small`: bytes saved, of what ZipNN saves", "at least", 1.0),
    Goal("weights-bfloat16-speed-1", "bfloat16 weights: decoding speed, of ZipNN's, one thread", "at least", 0.8, 1.5),
    Goal("weights-bfloat16-speed-2", "bfloat16 weights: decoding speed, of ZipNN's, two threads", "at least", 0.8, 1.5),
    Goal("tokens-size", "int64 token ids of real text: how many times smaller", "at least", 4),
    Goal("masks-size", "blob-like bool masks: how many times smaller", "at least", 8),
    Goal("labels-size", "int64 labels of at most 100 classes: how many times smaller", "at least", 8),
    Goal("random-size", "uniformly random data: size less 64 bytes, of its entropy", "at most", 1.03),
    Goal("encode-speed", "encoding, `balanced`, one thread: speed, of writing the zipped .pt", "at least", 15, 60),
    Goal("slices-size", "slices of a batch, each to a `.pt`: bytes, of torch.save of clones", "at most", 1.01),
    Goal("slices-time", "slices of a batch, each to a `.pt`: time, of torch.save of clones", "at most", 1.2),
    Goal("pt-save-new", "state_dict to a `.pt` of a new name: time, of torch.save's", "at most", 1.3),
    Goal("pt-save-over", "state_dict to a `.pt` over an older one: time, of torch.save's", "at most", 1.3),
    Goal("pt-save-synced", "the same: time, of torch.save and os.fsync", "at most", 1.3),
    Goal("pt-save-many", "20,000 small tensors to a `.pt`: time, of torch.save's", "at most", 1.2),
    Goal("pt-load", "state_dict from torch's `.pt`: time, of torch.load's", "at most", 1.1),
    Goal("cord-load", "state_dict from a `.cord`, `fast`: time, of torch.load's", "at most", 1.5),
    Goal("cord-load-touched", "the same, and every byte looked at in both", "at most", 1.5),
    Goal("cord-load-read", "the same, mmap=False: time, of torch.load's", "at most", 1.5),
    Goal("cord-size", "weights in a `.cord`: bytes, of the tensors' frames alone, worst goal", "at most", 1.01),
    Goal("small-file-direct", "a small `.cord`, read again and again: time, of the `.pt`'s", "at most", 2),
    Goal("small-file-zipfile", "a small `.cord`: speed, of the zip read by zipfile.open", "at least", 4),
    Goal("small-file-shutil", "a small `.cord`: speed, of the zip unpacked by shutil", "at least", 4),
    Goal("safetensors-load", "`.safetensors` of real weights: time to load, of its library's", "at most", 1.3),
    Goal("safetensors-touched", "the same, and every byte looked at in both", "at most", 1.3),
    Goal("trim-time", "trim of a file with 99% waste: time, of a file without the waste", "at most", 1.5),
    Goal("trim-reads", "the same: bytes read from the disk, of the bytes kept", "at most", 2),
    Goal("trim-memory", "the same: memory, of 1.1x the largest kept storage and 4 MB", "at most", 1),
    Goal("memory", "saving and trimming: memory, of what is allowed, worst case", "at most", 1),
    Goal("store-size-ffcv", "a store of photographs, `balanced`: bytes, of FFCV's uncompressed ones", "at most", 0.28),
    Goal("store-size-pt", "the same: how many times smaller than one .pt a sample", "at least", 12, 15),
    Goal("store-batch-ffcv", "64 random photographs, `balanced`, to float32: speed, of FFCV's", "at least", 0.9, 2),
    Goal("store-single-raw", "one photograph, `raw`: time, of torch.load's of a .pt", "at most", 1, 0.5),
    Goal("store-single-balanced", "one photograph, `balanced`: time, of torch.load's of a .pt", "at most", 1.5, 0.5),
    Goal("store-images-files", "256 random 3 KiB images, `raw` and `fast`: speed, of one file each", "at least", 10),
    Goal("store-images-lmdb", "the same: speed, of LMDB's", "at least", 2),
    Goal("store-images-tensordict", "the same: speed, of TensorDict's memory map", "at least", 2),
    Goal("store-images-litdata", "the same: speed, of LitData's", "at least", 2),
    Goal(
        "store-tokens-files", "256 random rows of 512 tokens, the same goals: speed, of one file each", "at least", 10
    ),
    Goal("store-tokens-lmdb", "the same: speed, of LMDB's", "at least", 2),
    Goal("store-tokens-tensordict", "the same: speed, of TensorDict's memory map", "at least", 2),
    Goal("store-tokens-litdata", "the same: speed, of LitData's", "at least", 2),
    Goal("store-write-litdata", "packing photographs, `balanced`: speed, of LitData's", "at least", 3),
    Goal("store-write-ffcv", "packing photographs, `balanced`: speed, of FFCV's", "at least", 1, 3),
    Goal("store-memory", "reading a million random samples: growth of memory, of 4 MiB", "at most", 1),
    Goal("store-open-time", "opening a hundred million samples: time, of 50 ms", "at most", 1),
    Goal("store-open-memory", "opening a hundred million samples: memory, of 8 MiB", "at most", 1),
    Goal("feed-balanced-ffcv", "photographs, `balanced`, to float32: speed, of FFCV's raw", "at least", 1, 2),
    Goal("feed-balanced-bytes", "the same: bytes a sample, of FFCV's", "at most", 0.28),
    Goal("feed-balanced-litdata", "the same: speed, of LitData's", "at least", 1.25),
    Goal("feed-balanced-tensordict", "the same: speed, of TensorDict's memory map", "at least", 1.25),
    Goal("feed-balanced-files", "the same: speed, of one .pt a sample", "at least", 2),
    Goal("feed-balanced-zipped", "the same: speed, of one zipped .pt a sample", "at least", 6),
    Goal("feed-raw-floats", "photographs, `raw` uint8, normalised to float32: speed, of FFCV's", "at least", 2, 5),
    Goal("feed-raw-bytes", "photographs, `raw` uint8, as uint8: speed, of FFCV's", "at least", 1),
    Goal("feed-cold-speed-ffcv", "photographs, `balanced`, from the disk: speed, of FFCV's raw", "at least", 2),
    Goal("feed-cold-speed-tensordict", "the same: speed, of TensorDict's memory map", "at least", 2),
    Goal("feed-cold-read-ffcv", "the same: how many times fewer bytes are read than by FFCV", "at least", 2),
    Goal("feed-cold-read-tensordict", "the same: than by TensorDict's memory map", "at least", 2),
    Goal("feed-images-files", "3 KiB images, `raw` and `fast`: speed, of one file each", "at least", 10),
    Goal("feed-images-lmdb", "the same: speed, of LMDB's", "at least", 2),
    Goal("feed-images-tensordict", "the same: speed, of TensorDict's memory map", "at least", 2),
    Goal("feed-images-litdata", "the same: speed, of LitData's", "at least", 2),
    Goal("feed-images-ffcv", "the same: speed, of FFCV's", "at least", 2),
    Goal("feed-tokens-files", "rows of 512 tokens, the same goals: speed, of one file each", "at least", 10),
    Goal("feed-tokens-lmdb", "the same: speed, of LMDB's", "at least", 2),
    Goal("feed-tokens-tensordict", "the same: speed, of TensorDict's memory map", "at least", 2),
    Goal("feed-tokens-litdata", "the same: speed, of LitData's", "at least", 2),
    Goal("feed-tokens-ffcv", "the same: speed, of FFCV's", "at least", 2),
    Goal("feed-first-batch", "the first shuffled batch of ten million samples: time, of 200 ms", "at most", 1),
    Goal("feed-memory", "a hundred epochs: growth of memory beyond the batches of one call, of 4 MiB", "at most", 1),
    Goal("feed-training-wait", "training a small convnet: share of the time that it waits, of 1%", "at most", 1),
    Goal("pack-workers", "a folder of JPEG files: two workers' speed, of one worker's", "at least", 1.6),
    Goal("pack-litdata", "the same, two workers: speed, of LitData's optimize", "at least", 1.5),
    Goal("pack-plain", "the same: speed, of a plain loop with torch.save", "at least", 1.5),
    Goal("pack-size", "the same: how many times smaller than the .pt files", "at least", 12),
    Goal("pack-overhead", "what pack adds to a transform of 5 ms and its encoding, of 0.5 ms", "at most", 1),
    Goal("pack-memory", "a million tiny samples: growth of memory, of 16 MiB", "at most", 1),
    Goal("pack-resume", "the same, killed at 90%: from the call to new samples written, of 5 s", "at most", 1),
    Goal("plans-sorted", "first samples of another kind: bytes, of the same samples shuffled", "at most", 1.03, 1.0),
    Goal("plans-predicted", "the same: how far `pack --limit 200` is from the bytes written", "at most", 1.10),
    Goal("plans-shuffled-before", "the same, shuffled: bytes, of the version before", "at most", 1.0, 0.97),
    Goal("plans-orders", "twelve further orders: bytes, of the same samples shuffled", "at most", 1.05, 1.0),
    Goal("plans-orders-before", "the same, shuffled: bytes, of the version before", "at most", 1.0, 0.97),
    Goal("plans-mixed", "screenshots and photographs in one store: bytes, of a store for each", "at most", 1.02, 1.0),
    Goal("plans-webp-size", "photographs, `small`: size, of Pillow's lossless WebP's", "at most", 0.97, 0.93),
    Goal("plans-webp-speed", "the same: decoding speed, of WebP's and of what its size asks for", "at least", 1),
    Goal("plans-decode-before", "photographs, `balanced`: decoding speed, of the version before", "at least", 1, 1.3),
    Goal("plans-pack-before", "the same: packing speed, of the version before", "at least", 0.9, 1.0),
    Goal("plans-texts", "texts of 40 to 100 bytes: the store, of zstd frames with a dictionary", "at most", 1.4, 1.25),
    Goal("plans-small-decode", "batches of 256 small samples, one thread: speed, of zstd for each", "at least", 1, 3),
    Goal("plans-tiny-speed", "two million tiny samples, `extend`: speed, of 200,000 samples/s", "at least", 1),
    Goal("plans-tiny-size", "the same: bytes, of the raw ones", "at most", 1.25),
    Goal("doctor-cost-10ms", "phase timers at steps of 10 ms: time, of the bare script's", "at most", 1.01),
    Goal("doctor-cost-1ms", "phase timers at steps of 1 ms: time, of the bare script's", "at most", 1.05),
    Goal("doctor-cost-detached", "after `--steps N`: distance from the bare script, of the noise", "at most", 1),
    Goal("doctor-found", "planted faults that are not found first, at their line", "at most", 0, unit="count"),
    Goal("doctor-gain", "planted faults whose mending gives something else than promised", "at most", 0, unit="count"),
    Goal("doctor-healthy", "findings above information level in healthy scripts", "at most", 0, unit="count"),
)

BY_KEY = {goal.key: goal for goal in GOALS}
