"""Decides by the suffix of a file name which format to write.

    format_of("last.cord")         # "cord"
    format_of("last.pt.zip")       # "pt", as for any suffix that nobody else has
    refusal("weights.crd")         # "weights.crd: no format has the suffix .crd; did you mean .cord?"

Like torch.save, Cordwood takes any suffix: people write checkpoints to `.pth`, `.bin`, `.pkl`, `.tar`, to none at all,
and to `.tmp` before they rename them. It refuses those that promise another format than the file would have, because
whoever opens it later is told about a damaged file, not about a wrong name.
"""

from typing import Final

from cordwood.common.suggest import nearest

# What others call theirs, and who writes it.
_OTHERS: Final = {
    "cordwood": ("a store of samples", "cw.pack or cw.Writer"),
    "csv": ("a table as text", "numpy.savetxt"),
    "gguf": ("llama.cpp's format", "its own converters"),
    "h5": ("HDF5", "h5py"),
    "hdf5": ("HDF5", "h5py"),
    "json": ("text", "json.dump"),
    "npy": ("NumPy's format", "numpy.save"),
    "npz": ("NumPy's format", "numpy.savez"),
    "onnx": ("ONNX", "torch.onnx.export"),
}
# A slip in one of these gives another format than was meant. One in `.pt` or `.pth` gives torch's all the same, and
# nearly every suffix of two or three letters is like these two.
_MISTYPED: Final = ("cord", "safetensors")
_SAFETENSORS: Final = (
    "a .safetensors file cannot hold shared or strided tensors, or any object around them, so Cordwood does not write "
    "it: use .pt or .cord, or safetensors.torch.save_file"
)


def format_of(name: str) -> str:
    """The format of a file of this name."""
    return "cord" if suffix_of(name) == "cord" else "pt"


def suffix_of(name: str) -> str:
    """What is behind the last dot, in small letters."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def refusal(name: str) -> str | None:
    """Why nothing should be written under this name unless somebody insists, and what to write instead."""
    suffix = suffix_of(name)
    if suffix == "safetensors":
        return _SAFETENSORS
    if suffix in _OTHERS:
        what, writer = _OTHERS[suffix]
        return f"{name!r}: .{suffix} is {what}, which Cordwood does not save to: use .pt or .cord, or {writer}"
    if suffix in _MISTYPED:
        return None
    # A word that is much shorter or longer, such as .tensor, is a word of its own.
    meant = nearest(suffix, [each for each in _MISTYPED if abs(len(each) - len(suffix)) <= 1])
    if meant is None:
        return None
    told = f"{name!r}: no format has the suffix .{suffix}; did you mean .{meant}?"
    return told if meant != "safetensors" else f"{told} But {_SAFETENSORS}"
