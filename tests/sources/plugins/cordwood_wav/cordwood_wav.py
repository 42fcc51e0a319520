"""A plug-in: folders of .wav files.

    pip install cordwood-wav
    cordwood pack recordings/ recordings.cordwood

A sample is ``{"audio": int16 tensor, channels x frames, "rate": samples a second, "path": "a/1.wav"}``.
"""

import hashlib
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from cordwood.errors import FormatError
from cordwood.sources import Input, Source, SourceOptions


class WavFolder(Source):
    """All .wav files below a folder."""

    kind = "wav"

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._paths = sorted(path.relative_to(self._root).as_posix() for path in self._root.rglob("*.wav"))

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.is_dir() and next(path.rglob("*.wav"), None) is not None

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        return cls(path)

    @property
    def count(self) -> int:
        return len(self._paths)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        for path in self._paths[start:]:
            status = (self._root / path).stat()
            yield Input(path, path, status.st_size, status.st_mtime_ns)

    def reader(self) -> Callable[[Any], Any]:
        return WavReader(self._root)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": str(self._root.resolve())}

    def fingerprint(self) -> str:
        told = "".join(f"{given.name} {given.size} {given.stamp}\n" for given in self.inputs())
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


class WavReader:
    """Reads one file. It goes to the workers, and the list of files does not."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, path: str) -> dict[str, Any]:
        try:
            with wave.open(str(self._root / path), "rb") as file:
                if file.getsampwidth() != 2:
                    raise FormatError(f"{path}: {8 * file.getsampwidth()} bits a sample, and 16 are read")
                frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
                audio = torch.from_numpy(frames.reshape(-1, file.getnchannels()).T.copy())
                return {"audio": audio, "rate": file.getframerate(), "path": path}
        except (wave.Error, EOFError, ValueError) as error:
            raise FormatError(f"{path}: {error}") from error
