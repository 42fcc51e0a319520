"""A field that only late samples lack is a failure of their inputs, for any number of workers and parts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError
from tests.packing.support.forkedworkers import fork_in
from tests.packing.support.numbers import pack
from tests.store.support.photos import files_of

COUNT, LATE = 700, range(660, 688)


class Items:
    """A dataset whose late items have other fields."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"image": torch.full((4, 4), number % 256, dtype=torch.uint8), "number": number}


def dropped(sample: dict[str, Any]) -> dict[str, Any]:
    late = sample["number"] in LATE
    return {key: value for key, value in sample.items() if not (late and key == "image")}


def emptied(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "image": None} if sample["number"] in LATE else sample


def of_batch(batch: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        {"image": image, "number": int(number)} for image, number in zip(batch["image"], batch["number"], strict=True)
    ]
    return [dropped(row) for row in rows]


SAYS = {dropped: "field 'image' is missing", emptied: "field 'image' is None", of_batch: "field 'image' is missing"}


@pytest.mark.parametrize("transform", SAYS)
def test_the_job_stops_at_the_first(tmp_path: Path, transform: Any) -> None:
    batch = {"batched": True, "batch_size": 1} if transform is of_batch else {}
    with pytest.raises(PackError, match=f"input 660 failed: UsageError: {SAYS[transform]}.*optional=True"):
        pack(Items(), tmp_path / "s", transform, **batch)


@pytest.mark.filterwarnings("ignore:28 of 700 inputs failed")
@pytest.mark.parametrize("workers", [0, 2])
def test_all_are_listed_if_they_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    fork_in(monkeypatch)
    options: dict[str, Any] = {"on_error": "skip", "shard_bytes": 4000}
    packed = pack(Items(), tmp_path / "s", dropped, workers=workers, **options)
    assert (packed.samples, packed.failed) == (COUNT - len(LATE), len(LATE))
    lines = (tmp_path / "s.errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["input"] for line in lines] == list(LATE)
    assert all("image" in sample for sample in cw.open(tmp_path / "s"))
    pack(Items(), tmp_path / "one", dropped, **options)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "s")


def test_only_the_part_that_has_them_fails(tmp_path: Path) -> None:
    for part in (1, 2, 3):
        pack(Items(), tmp_path / f"{part}", dropped, part=(part, 4))
    with pytest.raises(PackError, match="input 660 failed"):
        pack(Items(), tmp_path / "4", dropped, part=(4, 4))


def test_they_are_stored_if_that_was_asked_for(tmp_path: Path) -> None:
    packed = pack(Items(), tmp_path / "s", dropped, fields={"image": cw.Field(optional=True)})
    assert packed.samples == COUNT
    ds = cw.open(tmp_path / "s")
    assert [number for number in range(COUNT) if "image" not in ds[number]] == list(LATE)
    with pytest.raises(cw.UsageError, match="other settings"):
        pack(Items(), tmp_path / "s", dropped)
