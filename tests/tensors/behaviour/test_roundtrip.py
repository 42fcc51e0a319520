"""Everything in the catalogue, saved in every form: `load` gives the same back, and so does torch.load where it can."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from tests.tensors.support.objects import CATALOGUE, QUIET, Case, as_loaded
from tests.tensors.support.same import assert_same, assert_shares_alike, strided_parts

pytestmark = QUIET

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "pt": ("x.pt", {}),
    "compressed": ("x.pt", {"compress": True}),
    "legacy": ("x.pt", {"format": "pt-legacy"}),
    "zipped": ("x.pt.zip", {}),
    **{f"cord-{goal}": ("x.cord", {"goal": goal}) for goal in ("small", "balanced", "fast", "raw")},
}
ALLOWANCE = 1024

each_case = pytest.mark.parametrize("case", CATALOGUE.values(), ids=CATALOGUE)
each_form = pytest.mark.parametrize("form", FORMS)


def save(obj: Any, form: str, folder: Path) -> Path:
    name, options = FORMS[form]
    cw.save(obj, folder / name, **options)
    return folder / name


def torch_file(obj: Any, *, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def assert_strides_make_sense(before: Any, after: Any) -> None:
    """Dense tensors keep their strides; others are closed up, with the order of their dimensions kept."""
    loaded = strided_parts(after)
    for name, tensor in strided_parts(before).items():
        now = loaded[name].stride()
        if torch.ops.aten.is_non_overlapping_and_dense(tensor):
            assert now == tensor.stride(), name
        steps = [(s, t) for n, s, t in zip(tensor.shape, tensor.stride(), now, strict=True) if n > 1]
        for was, is_now in steps:
            assert is_now <= was, name
            assert (is_now == 0) == (was == 0), name
        assert [t for _, t in sorted(steps)] == sorted(t for _, t in steps), name


@each_form
@each_case
def test_load_gives_the_same_back(case: Case, form: str, tmp_path: Path) -> None:
    obj = case.make()
    path = save(obj, form, tmp_path)
    if not case.safe:
        with pytest.raises(cw.FormatError, match=r"not on the list.*add_safe_globals.*weights_only=False"):
            cw.load(path)
    loaded = cw.load(path, weights_only=case.safe)
    assert same_as(obj, loaded)
    assert_strides_make_sense(obj, loaded)
    assert_same(case.make(), obj)  # and nothing was done to the object itself
    assert same_as(obj, cw.load(path, weights_only=False))


@pytest.mark.slow
@each_case
def test_no_larger_than_torch_would_write(case: Case, tmp_path: Path) -> None:
    if not case.torch_saves:
        pytest.skip("torch.save refuses it")
    obj = case.make()
    for form in FORMS:
        allowed = len(torch_file(obj, legacy=form == "legacy")) + ALLOWANCE
        assert save(obj, form, tmp_path).stat().st_size <= allowed, form


LOCATIONS: list[dict[str, Any]] = [
    {},
    {"map_location": "cpu"},
    {"map_location": "meta"},
    {"map_location": {"cpu": "cpu"}},
    {"mmap": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("form", ["pt", "legacy"])
@each_case
def test_torch_does_with_it_what_it_does_with_its_own(
    case: Case, form: str, weights_only: bool, tmp_path: Path
) -> None:
    if form == "legacy" and case.name == "nested":
        pytest.skip("torch fills the storages of an old file last, and by then has read sizes from them")
    obj = case.make()
    ours, theirs = save(obj, form, tmp_path), tmp_path / "theirs.pt"
    if case.torch_saves:
        theirs.write_bytes(torch_file(obj, legacy=form == "legacy"))
    for options in LOCATIONS:
        if not case.torch_saves:
            if form == "pt" or "mmap" not in options:  # torch maps no file of the old format
                loaded = torch.load(ours, weights_only=weights_only, **options)
                assert options.get("map_location") == "meta" or same_as(obj, loaded)
            continue
        wanted = outcome(lambda: torch.load(theirs, weights_only=weights_only, **options))  # noqa: B023
        found = outcome(lambda: torch.load(ours, weights_only=weights_only, **options))  # noqa: B023
        if isinstance(found, Exception):
            assert type(wanted) is type(found), f"{options}: {wanted!r} from torch's own file, {found!r} from ours"
        elif not isinstance(wanted, Exception):  # of dtypes newer than the old format torch cannot read its own file
            assert_same(wanted, found, strides=False)
        assert isinstance(found, Exception) or options.get("map_location") == "meta" or same_as(obj, found)


@pytest.mark.slow
@pytest.mark.parametrize("weights_only", [True, False])
@each_case
def test_torch_reads_compressed_files(case: Case, weights_only: bool, tmp_path: Path) -> None:
    if weights_only and not case.safe:
        pytest.skip("torch refuses names in it")
    obj = case.make()
    assert same_as(obj, torch.load(save(obj, "compressed", tmp_path), weights_only=weights_only))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pt", "compressed", "cord-raw", "cord-balanced"])
@each_case
def test_load_takes_torchs_options(case: Case, form: str, tmp_path: Path) -> None:
    obj = case.make()
    ours = save(obj, form, tmp_path)
    cw.save(obj, tmp_path / "plain.pt")
    for options in LOCATIONS:
        wanted = outcome(lambda: torch.load(tmp_path / "plain.pt", weights_only=case.safe, **options))  # noqa: B023
        found = outcome(lambda: cw.load(ours, weights_only=case.safe, **options))  # noqa: B023
        if form == "compressed" and "mmap" in options and strided_parts(obj) and isinstance(found, Exception):
            assert "compressed and cannot be mapped" in str(found)
            continue
        if isinstance(wanted, Exception):  # a quantized or nested tensor cannot be on the meta device
            assert isinstance(found, cw.FormatError | NotImplementedError), options
            continue
        assert not isinstance(found, Exception), f"{options}: {found!r}"
        assert_same(wanted, found, strides=False)
        assert options.get("map_location") == "meta" or same_as(obj, found)


@each_case
def test_load_reads_what_torch_writes(case: Case) -> None:
    if not case.torch_saves:
        pytest.skip("torch.save refuses it")
    obj = case.make()
    theirs = torch.load(io.BytesIO(torch_file(obj)), weights_only=False)
    for legacy in (False, True):
        ours = cw.load(io.BytesIO(torch_file(obj, legacy=legacy)), weights_only=case.safe)
        assert_same(theirs, ours)
        assert_shares_alike(theirs, ours)


def same_as(obj: Any, loaded: Any) -> bool:
    assert_same(as_loaded(obj), loaded, strides=False)
    assert_shares_alike(obj, loaded)
    return True


def outcome(run: Callable[[], Any]) -> Any:
    """What it gives, or what it raises."""
    try:
        return run()
    except Exception as error:
        return error
