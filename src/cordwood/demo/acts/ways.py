"""Every way to keep a prepared tensor that the demo compares: how it is written and read.

A way reads back the normalised float32 tensor, whatever it keeps. Whether that tensor is the one that went in is found
out by comparing, not declared here.
"""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.demo.acts.photographs import JPEG_QUALITY
from cordwood.demo.acts.prepare import PreparedImage, normalised, prepared_pixels
from cordwood.tensors import load, save

GOALS: tuple[Goal, ...] = ("fast", "balanced", "small")
PLANNING_SAMPLES = 16
PNG_LEVEL = 3
WEBP_METHOD = 2
BASELINE = "torch.save(batch[i].clone())"


@dataclass(frozen=True)
class Way:
    """One way to keep a tensor: one file a sample, and what all files share, such as a plan."""

    title: str
    name: str  # of its folder
    suffix: str
    write: Callable[[PreparedImage, Path], None]
    read: Callable[[Path], torch.Tensor]
    shared: bytes = b""
    note: str = ""
    only_one_batch: bool = False  # too large to be written for every sample
    is_ours: bool = False


def all_ways(samples: list[PreparedImage]) -> list[Way]:
    """The ways in the order they are told; ``samples`` are what the plans are chosen on."""
    return [
        Way("torch.save(batch[i])", "torch-slices", ".pt", write_slice, read_tensor, only_one_batch=True),
        Way(BASELINE, "torch-clones", ".pt", write_clone, read_tensor),
        Way("the clones, zipped", "torch-zipped", ".zip", write_zipped, read_zipped),
        Way("uint8 pixels (.npy)", "uint8", ".npy", write_pixels, read_pixels),
        Way(f"PNG, level {PNG_LEVEL}", "png", ".png", write_png, read_png),
        Way("WebP, lossless", "webp", ".webp", write_webp, read_image),
        Way(f"JPEG, quality {JPEG_QUALITY}", "jpeg", ".jpg", write_jpeg, read_image),
        Way('cw.save(batch[i], "x.cord")', "cw-save-cord", ".cord", write_saved, read_loaded, is_ours=True),
        *[cordwood_way(samples, goal) for goal in GOALS],
    ]


def cordwood_way(samples: list[PreparedImage], goal: Goal) -> Way:
    """Frames of the float tensors themselves, by a plan chosen once for the data set."""
    # Files come class by class: some of every class, not many of the first.
    some = samples[:: max(1, len(samples) // PLANNING_SAMPLES)]
    plan = codecs.plan([sample.tensor.numpy() for sample in some], goal)

    def write(sample: PreparedImage, path: Path) -> None:
        path.write_bytes(codecs.encode(sample.tensor.numpy(), plan))

    def read(path: Path) -> torch.Tensor:
        return torch.from_numpy(codecs.decode(path.read_bytes(), plans=plan))

    shared = plan.to_json().encode()
    return Way(
        f'codecs.encode(x, "{goal}")', f"cordwood-{goal}", ".frame", write, read, shared, str(plan), is_ours=True
    )


def reprepare(path: Path) -> torch.Tensor:
    """The way that keeps nothing: prepare the original file again, every time."""
    return normalised(prepared_pixels(path))


def write_slice(sample: PreparedImage, path: Path) -> None:
    """The trap: the slice is a view, so the file gets the whole batch behind it."""
    torch.save(sample.tensor, path)


def write_clone(sample: PreparedImage, path: Path) -> None:
    """A clone owns its bytes and nothing else."""
    torch.save(sample.tensor.clone(), path)


def read_tensor(path: Path) -> torch.Tensor:
    """What ``torch.save`` wrote."""
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor


def write_saved(sample: PreparedImage, path: Path) -> None:
    """The slice as it is; what it does not reach stays out of the file."""
    save(sample.tensor, path)


def read_loaded(path: Path) -> torch.Tensor:
    """What ``cw.save`` wrote, in whatever format."""
    tensor: torch.Tensor = load(path)
    return tensor


def write_zipped(sample: PreparedImage, path: Path) -> None:
    """The .pt file deflated in a zip archive, as ``zip x.zip x.pt`` does."""
    buffer = io.BytesIO()
    torch.save(sample.tensor.clone(), buffer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tensor.pt", buffer.getvalue())


def read_zipped(path: Path) -> torch.Tensor:
    """Inflate, then load."""
    with zipfile.ZipFile(path) as archive:
        tensor: torch.Tensor = torch.load(io.BytesIO(archive.read("tensor.pt")), weights_only=True)
    return tensor


def write_pixels(sample: PreparedImage, path: Path) -> None:
    """The prepared pixels, a byte each."""
    np.save(path, sample.pixels)


def read_pixels(path: Path) -> torch.Tensor:
    """Pixels, normalised anew."""
    return normalised(np.load(path))


def write_png(sample: PreparedImage, path: Path) -> None:
    """OpenCV's PNG writer; its channels are blue, green, red."""
    cv2.imwrite(str(path), sample.pixels[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL])


def read_png(path: Path) -> torch.Tensor:
    """OpenCV's PNG reader, then normalised anew."""
    return normalised(np.asarray(cv2.imread(str(path), cv2.IMREAD_COLOR_RGB), dtype=np.uint8))


def write_webp(sample: PreparedImage, path: Path) -> None:
    """Lossless WebP of the prepared pixels."""
    Image.fromarray(sample.pixels).save(path, lossless=True, method=WEBP_METHOD)


def write_jpeg(sample: PreparedImage, path: Path) -> None:
    """A JPEG of the prepared pixels: smaller, but no longer the same pixels."""
    Image.fromarray(sample.pixels).save(path, quality=JPEG_QUALITY)


def read_image(path: Path) -> torch.Tensor:
    """Pillow's reader, then normalised anew."""
    with Image.open(path) as image:
        return normalised(np.asarray(image.convert("RGB")))
