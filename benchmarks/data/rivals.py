"""The other ways to keep a photograph, each in its best reasonable setting, all decoding to normalised float32.

A `Decode` takes a frame and memory for the result, fills that memory where the rival's API lets it, and returns the
array that holds the result. An image format gives uint8 in rows of RGB. What turns that into normalised planes is not
the format's doing, so every image format gets the fastest bit-exact conversion below, as timed on this machine.
"""

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data.photographs import MEAN, STD, Floats, Pixels, normalise, normalised_values
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, fastest

Decode = Callable[[bytes, Floats], Any]
Convert = Callable[[Pixels, Floats], Floats]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch and OpenCV held to so many threads: they would take every core for a single image."""
    torch, cv2 = need("torch"), need("cv2")
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


# --- conversions: 224x224x3 uint8 to 3x224x224 normalised float32 in memory that is there already ---


def by_numpy_lookup() -> Convert:
    """A table of 256 floats a channel, looked up by `take`."""
    table = normalised_values()

    def convert(pixels: Pixels, out: Floats) -> Floats:
        for channel in range(3):
            # mode="clip" is what lets take write to `out` without a buffer; no index is ever outside.
            table[channel].take(pixels[..., channel], out=out[channel], mode="clip")
        return out

    return convert


def by_opencv_lookup() -> Convert:
    """The same tables, looked up by OpenCV after splitting the channels."""
    cv2 = need("cv2")
    table = normalised_values()

    def convert(pixels: Pixels, out: Floats) -> Floats:
        for channel, plane in enumerate(cv2.split(pixels)):
            cv2.LUT(plane, table[channel], dst=out[channel])
        return out

    return convert


def by_torch_in_place() -> Convert:
    """torch's own operations, in place on the given memory."""
    torch = need("torch")
    mean = torch.tensor(MEAN).view(3, 1, 1)
    std = torch.tensor(STD).view(3, 1, 1)

    def convert(pixels: Pixels, out: Floats) -> Floats:
        planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        torch.from_numpy(out).copy_(planes).div_(255).sub_(mean).div_(std)
        return out

    return convert


def naive(pixels: Pixels, out: Floats) -> Floats:
    """What a training script does: new memory at every step. For information, never the rival."""
    return normalise(pixels)


def best_conversion(samples: list[Pixels]) -> tuple[str, Convert]:
    """The fastest of the conversions, each first held against torch bit for bit."""
    outs = [np.zeros((3, *pixels.shape[:2]), np.float32) for pixels in samples]
    ways = {"NumPy take": by_numpy_lookup(), "OpenCV LUT": by_opencv_lookup(), "torch in place": by_torch_in_place()}
    contenders = []
    for name, convert in ways.items():
        convert(samples[0], outs[0])
        if outs[0].tobytes() != normalise(samples[0]).tobytes():
            raise MismatchError(f"conversion by {name} is not torch's, bit for bit")
        contenders.append(Contender(name, partial(over_all, convert, samples, outs)))
    winner = fastest(contenders).name
    return winner, ways[winner]


def over_all(work: Callable[[Any, Floats], object], items: Sequence[Any], outs: Sequence[Floats]) -> None:
    """One pass: every item into a row of its own, so that neither input nor output stays in a near cache."""
    for item, out in zip(items, outs, strict=True):
        work(item, out)


# --- image formats ---


def encode_webp(pixels: Pixels) -> bytes:
    """Lossless WebP as Pillow writes it with method 2 and the quality it has by default."""
    target = io.BytesIO()
    need("PIL.Image").fromarray(pixels).save(target, "WEBP", lossless=True, method=2)
    return target.getvalue()


def encode_png(pixels: Pixels) -> bytes:
    """PNG as OpenCV writes it with level 3."""
    cv2 = need("cv2")
    done, encoded = cv2.imencode(".png", pixels[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 3])
    if not done:
        raise MismatchError("OpenCV wrote no PNG")
    return bytes(encoded)


def encode_png_pillow(pixels: Pixels) -> bytes:
    """PNG as Pillow writes it by default (level 6): smaller, and slower to write. For information."""
    target = io.BytesIO()
    need("PIL.Image").fromarray(pixels).save(target, "PNG")
    return target.getvalue()


def image_decoder(library: str, convert: Convert) -> Decode:
    """Decoding of WebP and PNG alike by OpenCV or Pillow: which is the faster is for the run to show."""
    if library == "Pillow":
        image = need("PIL.Image")
        return lambda frame, out: convert(np.asarray(image.open(io.BytesIO(frame))), out)
    cv2 = need("cv2")
    return lambda frame, out: convert(cv2.imdecode(np.frombuffer(frame, np.uint8), cv2.IMREAD_COLOR_RGB), out)


# --- tensors in files ---


def encode_torch(array: Floats) -> bytes:
    """torch.save of a tensor that owns just its own bytes (a clone, not a slice of a batch)."""
    torch = need("torch")
    target = io.BytesIO()
    torch.save(torch.from_numpy(array), target)
    return target.getvalue()


def decode_torch(frame: bytes, out: Floats) -> Any:
    """torch.load allocates for itself: `out` cannot be given to it."""
    return need("torch").load(io.BytesIO(frame)).numpy()


def encode_zipped(array: Floats) -> bytes:
    """The .pt inside a deflated zip, as people do it when the disk fills up."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sample.pt", encode_torch(array))
    return target.getvalue()


def decode_zipped(frame: bytes, out: Floats) -> Any:
    """Inflate the .pt, then load it; neither step can be given memory."""
    with zipfile.ZipFile(io.BytesIO(frame)) as archive:
        return decode_torch(archive.read("sample.pt"), out)


def encode_safetensors(array: Floats) -> bytes:
    """The array's bytes behind a small header."""
    encoded: bytes = need("safetensors.numpy").save({"sample": array})
    return encoded


def decode_safetensors(frame: bytes, out: Floats) -> Any:
    """A copy of the bytes into new memory; there is no checksum to verify."""
    return need("safetensors.numpy").load(frame)["sample"]


def encode_zstd(array: Floats) -> bytes:
    """General compression of the float32 bytes, level 3."""
    encoded: bytes = need("zstandard").ZstdCompressor(level=3).compress(array.tobytes())
    return encoded


def decode_zstd(frame: bytes, out: Floats) -> Floats:
    """Straight into the given memory."""
    need("zstandard").ZstdDecompressor().stream_reader(frame).readinto(out.reshape(-1).view(np.uint8).data)
    return out
