"""Suffixes: any is torch's format, but what promises another one is refused with what to write instead."""

import pytest

from cordwood.cli.tensor_files import SUFFIXES
from cordwood.tensors.formats.suffixes import format_of, refusal, suffix_of


@pytest.mark.parametrize(
    ("name", "suffix", "format"),
    [
        ("x.cord", "cord", "cord"),
        ("x.CORD", "cord", "cord"),
        ("x.pt.zip", "zip", "pt"),
        ("x", "", "pt"),
        ("x.", "", "pt"),
    ],
)
def test_what_a_suffix_says(name: str, suffix: str, format: str) -> None:
    assert (suffix_of(name), format_of(name)) == (suffix, format)


@pytest.mark.parametrize(
    "suffix",
    [
        *(each for each in SUFFIXES if each != ".safetensors"),
        *("", ".", ".pkl", ".tar", ".p", ".pt2", ".t7", ".tmp", ".part", ".bak", ".old", ".tensor", ".tensors"),
        *(".model", ".weights", ".best", ".dat", ".data", ".0001", ".epoch-3", ".py", ".cord.tmp"),
    ],
)
def test_what_people_write_checkpoints_to_is_taken(suffix: str) -> None:
    assert refusal(f"last{suffix}") is None


@pytest.mark.parametrize(
    ("suffix", "instead"),
    [
        ("crd", "did you mean .cord?"),
        ("cords", "did you mean .cord?"),
        ("CROD", "did you mean .cord?"),
        ("safetensor", "did you mean .safetensors? But a .safetensors file cannot hold"),
        ("saftensors", "did you mean .safetensors? But a .safetensors file cannot hold"),
        ("npy", "use .pt or .cord, or numpy.save"),
        ("NPZ", "numpy.savez"),
        ("h5", "h5py"),
        ("hdf5", "h5py"),
        ("onnx", "torch.onnx.export"),
        ("json", "json.dump"),
        ("csv", "numpy.savetxt"),
        ("gguf", "converters"),
        ("cordwood", "cw.pack or cw.Writer"),
        ("safetensors", "safetensors.torch.save_file"),
    ],
)
def test_what_promises_another_format_is_refused(suffix: str, instead: str) -> None:
    said = refusal(f"last.{suffix}")
    assert said is not None
    assert instead in said


def test_a_name_is_shown_as_text_that_a_terminal_does_not_obey() -> None:
    assert "\x1b" not in (refusal("x\x1b[2J.npy") or "")
