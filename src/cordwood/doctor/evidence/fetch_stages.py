"""Assigns a function to a stage of loading: reading, decoding, or transforming, which is everything else.

    stage_of("<method 'decode' of 'ImagingDecoder' objects>")       # "decode"
    stage_of("<built-in method io.open>")                           # "read"
    own_times(profile)                                          # {Function(...): nanoseconds} of a cProfile.Profile

Told by names: of C functions, and of the files of libraries that are known to read or decode. A C function that is not
known belongs to the stage of the library function that calls it.
"""

import cProfile
import os
import re
import sysconfig
from types import CodeType
from typing import NamedTuple

from cordwood.common import PACKAGE

STAGES = ("read", "decode", "transform", "collate", "transfer")  # in the order in which a batch goes through them

_OWN_FOLDER = str(PACKAGE / "doctor") + os.sep
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep

_READING_C = re.compile(
    r"_io\.(FileIO|Buffered\w+|TextIOWrapper)|'(read|readinto|readall|pread)' of|\b(io|_io)\.open"
    r"|\bposix\.(open|read|pread|readv|preadv|close|stat|lstat|fstat|scandir|listdir|lseek)\b|\bmmap\b|'mmap\.|\bfromfile\b"
    r"|'(recv|recv_into|connect)' of|_ssl\.|_socket\.|select\.|\blmdb\b|\bh5py\b"
)
_DECODING_C = re.compile(
    r"ImagingDecoder|imdecode|\bimread\b|decode_(jpeg|png|image|webp|gif)|simplejpeg|turbojpeg"
    r"|zlib\.|_bz2|_lzma|[dD]ecompress|zstd|lz4|blosc|PyTorchFileReader|_pickle\.|Unpickler|_json\.|\bscanner\b|_csv\.|msgpack"
)
# Parts of paths inside site-packages, or of the standard library.
_READING_FILES = re.compile(
    r"/(h5py|lmdb|fsspec|s3fs|gcsfs|boto3|botocore|urllib3|requests|aiohttp|webdataset)/"
    r"|^(tarfile|socket|ssl|mmap|pathlib|posixpath|genericpath|glob|os|shutil)\.py$|^(http|urllib)/"
)
_DECODING_FILES = re.compile(
    r"/PIL/(ImageFile|\w+ImagePlugin|TiffTags|ExifTags|ImagePalette|_binary)\.py$|/torch/(serialization|_weights_only_unpickler)\.py$"
    r"|/numpy/lib/(_?format\w*|_?npyio\w*)\.py$|/(imageio|tifffile|rawpy|av|decord|torchcodec|soundfile|audioread|cv2)\b"
    r"|/torchvision/io/|/torchaudio/|/librosa/core/audio|/pandas/io/|/pyarrow/|/msgpack/|/simplejpeg|/turbojpeg"
    r"|^(zipfile|gzip|lzma|bz2|pickle|csv|_compression|wave)\b|^json/"
)
_PIL_OPENING = ("open", "preinit", "init", "_open_core")  # of PIL/Image.py, which also transforms


class Function(NamedTuple):
    """A function in a profile, and the stage that its own time belongs to."""

    name: str
    file: str  # "" for a C function
    line: int
    stage: str


def stage_of(code: CodeType | str) -> str | None:
    """Of a function's own time; None if its name does not tell."""
    if isinstance(code, str):
        # Decoders that read from memory are methods called "read", too, so they are asked for first.
        return "decode" if _DECODING_C.search(code) else "read" if _READING_C.search(code) else None
    file = code.co_filename.replace(os.sep, "/")
    if file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file:
        file = file.removeprefix(_STANDARD_LIBRARY)
    elif "site-packages" not in file and "dist-packages" not in file:
        return None  # the user's own file may have any name
    if _DECODING_FILES.search(file) or (file.endswith("/PIL/Image.py") and code.co_name in _PIL_OPENING):
        return "decode"
    return "read" if _READING_FILES.search(file) else None


def own_times(profile: cProfile.Profile, stage: str | None = None) -> dict[Function, int]:
    """Nanoseconds of own time by function. ``stage`` is for a profile that belongs to one stage as a whole."""
    times: dict[Function, int] = {}

    def add(code: CodeType | str, of_stage: str, seconds: float) -> None:
        if not _is_ours(code):
            key = _function(code, stage or of_stage)
            times[key] = times.get(key, 0) + round(seconds * 1e9)

    for entry in profile.getstats():
        of_caller = stage_of(entry.code) or "transform"
        if not isinstance(entry.code, str):
            add(entry.code, of_caller, entry.inlinetime)
        for call in entry.calls or ():
            if isinstance(call.code, str):
                add(call.code, stage_of(call.code) or of_caller, call.inlinetime)
    return times


def readable(name: str) -> str:
    """A profiler's name of a C function as people write it: "zlib.decompress", "ImagingDecoder.decode"."""
    name = re.sub(r" at 0x[0-9a-f]+", "", name)  # an address is another one in each process
    method = re.fullmatch(r"<(?:method|slot wrapper) '(.+)' of '(.+)' objects>", name)
    if method:
        return f"{method[2]}.{method[1]}"
    return re.sub(r"^<(?:(?:built-in )?(?:method|function) )?(.+)>$", r"\1", name).removeprefix("builtins.")


def _function(code: CodeType | str, stage: str) -> Function:
    if isinstance(code, str):
        return Function(readable(code), "", 0, stage)
    return Function(code.co_qualname, code.co_filename, code.co_firstlineno, stage)


def _is_ours(code: CodeType | str) -> bool:
    return "_lsprof.Profiler" in code if isinstance(code, str) else code.co_filename.startswith(_OWN_FOLDER)
