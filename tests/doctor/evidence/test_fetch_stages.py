"""Which stage of loading functions belong to."""

import cProfile
import zlib
from pathlib import Path
from types import CodeType

import pytest

from cordwood.doctor.evidence.fetch_stages import own_times, readable, stage_of


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("<method 'decode' of 'ImagingDecoder' objects>", "decode"),
        ("<built-in method zlib.decompress>", "decode"),
        ("<imdecode>", "decode"),
        ("<built-in method _pickle.loads>", "decode"),
        ("<method 'read' of '_io.BufferedReader' objects>", "read"),
        ("<built-in method io.open>", "read"),
        ("<built-in method posix.stat>", "read"),
        ("<built-in method numpy.fromfile>", "read"),
        ("<method 'recv_into' of '_socket.socket' objects>", "read"),
        ("<method 'resize' of 'ImagingCore' objects>", None),
        ("<built-in method torch.stack>", None),
        ("<method 'append' of 'list' objects>", None),
    ],
)
def test_c_functions_are_known_by_name(name: str, stage: str | None) -> None:
    assert stage_of(name) == stage


def code(file: str, name: str) -> CodeType:
    return compile(f"def {name}(): pass", file, "exec").co_consts[0].replace(co_filename=file)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("file", "name", "stage"),
    [
        ("/venv/lib/site-packages/PIL/JpegImagePlugin.py", "_open", "decode"),
        ("/venv/lib/site-packages/PIL/Image.py", "open", "decode"),
        ("/venv/lib/site-packages/PIL/Image.py", "resize", None),
        ("/venv/lib/site-packages/torch/serialization.py", "_load", "decode"),
        ("/venv/lib/site-packages/torch/functional.py", "norm", None),
        ("/venv/lib/site-packages/h5py/_hl/dataset.py", "__getitem__", "read"),
        ("/home/me/gzip.py", "open", None),
        ("/home/me/PIL/ImageFile.py", "load", None),
    ],
)
def test_python_functions_are_known_by_the_files_of_libraries(file: str, name: str, stage: str | None) -> None:
    assert stage_of(code(file, name)) == stage


def test_the_standard_library_is_known() -> None:
    import gzip
    import json.decoder
    import tarfile

    assert stage_of(gzip.decompress.__code__) == "decode"
    assert stage_of(json.decoder.JSONDecoder.decode.__code__) == "decode"
    assert stage_of(tarfile.TarFile.next.__code__) == "read"


def load(path: Path) -> list[int]:
    with path.open("rb") as file:
        data = zlib.decompress(file.read())
    return sorted(data)


def test_a_profile_is_split_by_stage_with_c_functions(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(zlib.compress(bytes(range(256)) * 4000))
    profile = cProfile.Profile()
    profile.enable()
    load(path)
    profile.disable()
    times = own_times(profile)
    stages = {function.name: function.stage for function in times}
    assert stages["load"] == "transform"
    assert stages["zlib.decompress"] == "decode"
    assert stages["_io.BufferedReader.read"] == "read"
    assert stages["sorted"] == "transform"
    assert all(own >= 0 for own in times.values())
    assert {function.stage for function in own_times(profile, "collate")} == {"collate"}
    assert not any("Profiler" in name for name in stages)


def test_an_unknown_c_function_belongs_to_the_library_that_calls_it(tmp_path: Path) -> None:
    import json

    profile = cProfile.Profile()
    profile.enable()
    json.loads("[1, 2]")
    profile.disable()
    stages = {function.name: function.stage for function in own_times(profile)}
    assert stages["re.Pattern.match"] == "decode"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<method 'decode' of 'ImagingDecoder' objects>", "ImagingDecoder.decode"),
        ("<built-in method zlib.decompress>", "zlib.decompress"),
        ("<built-in method builtins.sorted>", "sorted"),
        ("<imdecode>", "imdecode"),
        ("<function Tensor.__int__ at 0x7fac16be9d00>", "Tensor.__int__"),
        ("<slot wrapper '__init__' of 'object' objects>", "object.__init__"),
    ],
)
def test_names_are_written_as_people_write_them(name: str, shown: str) -> None:
    assert readable(name) == shown
