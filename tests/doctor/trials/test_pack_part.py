"""Which part of a dataset's work is always the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import digest
from cordwood.doctor.trials.pack_part import PackablePart, part_to_pack

NUMBERS = [0, 3, 7]


class Compose:
    """As torchvision's."""

    def __init__(self, transforms: list[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Scale:
    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        return value * 2


class Noise:
    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        return value + torch.rand(value.shape)


class Samples(Dataset[Any]):
    def __init__(self, transform: Any = None, form: str = "tuple") -> None:
        self.transform = transform
        self.form = form

    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> Any:
        x: Any = torch.full((4,), float(number))
        if self.form == "image":
            x = Image.fromarray(np.full((4, 4, 3), number, np.uint8))
        if self.transform is not None:
            x = self.transform(x)
        if self.form == "dict":
            return {"number": number, "x": x}
        if self.form == "second":
            return number, x, "name"
        return x if self.form == "lone" else (x, number)


def check_rest(part: PackablePart) -> None:
    """What is left to do makes of the packed part what the dataset gives, with the same random numbers."""
    assert part.rest is not None
    for number in NUMBERS:
        torch.manual_seed(7)
        whole = part.whole[number]
        packed = part.dataset[number]
        torch.manual_seed(7)
        assert digest(part.rest(packed)) == digest(whole)


def test_all_of_it_where_nothing_is_random() -> None:
    part = part_to_pack(Samples(Compose([Scale()])), NUMBERS)
    assert part.rest is None
    assert part.kept is None
    assert part.dataset is part.whole


@pytest.mark.parametrize("form", ["tuple", "dict", "second", "lone"])
def test_what_comes_before_a_random_transform(form: str) -> None:
    dataset = Samples(Noise(), form)
    part = part_to_pack(dataset, NUMBERS)
    assert part.dataset.transform is None
    assert isinstance(dataset.transform, Noise)
    assert part.what == "dataset[i] without its transform"
    check_rest(part)


@pytest.mark.parametrize("form", ["tuple", "dict", "second", "lone"])
def test_the_longest_part_of_a_list_that_is_not_random(form: str) -> None:
    dataset = Samples(Compose([Scale(), Scale(), Noise(), Scale()]), form)
    part = part_to_pack(dataset, NUMBERS)
    assert len(part.dataset.transform.transforms) == 2
    assert len(dataset.transform.transforms) == 4
    assert part.what == "dataset[i] up to Scale, Scale"
    check_rest(part)


@pytest.mark.parametrize("form", ["tuple", "dict", "second", "lone"])
@pytest.mark.parametrize("transform", [Noise(), Compose([Scale(), Noise()])], ids=["one", "list"])
def test_the_code_does_what_the_part_does(form: str, transform: Any) -> None:
    part = part_to_pack(Samples(transform, form), NUMBERS)
    assert part.kept is not None
    names: dict[str, Any] = {"data": Samples(transform, form)}
    exec("\n".join(part.kept.lines).replace("{dataset}", "data"), names)
    option = part.kept.options[0].replace("{dataset}", "data")
    assert option.startswith("sample_transform=")
    rest = eval(option.removeprefix("sample_transform="), names)
    packed = eval(part.kept.packed.replace("{dataset}", "data"), names)
    for number in NUMBERS:
        torch.manual_seed(3)
        expected = names["data"][number]
        sample = packed[number]
        torch.manual_seed(3)
        assert digest(rest(sample)) == digest(expected)
    assert part_to_pack(packed, NUMBERS).rest is None


def test_images_of_pillow_are_told_of_but_not_packed() -> None:
    def noisy(image: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(image)) + torch.rand(1)

    part = part_to_pack(Samples(noisy, "image"), NUMBERS)
    assert "no tensor" in part.why_not


def test_a_transform_that_is_not_all_there_is() -> None:
    class More(Samples):
        def __getitem__(self, number: int) -> Any:
            x, label = super().__getitem__(number)
            return (x if self.transform is None else x + 1), label

    part = part_to_pack(More(Noise()), NUMBERS)
    assert "not the transform alone" in part.why_not


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda number: torch.rand(2), "another one each time"),
        (lambda number: 1 // 0, "could not be tried by itself: ZeroDivisionError"),
    ],
)
def test_datasets_of_which_nothing_can_be_said(make: Callable[[int], Any], said: str) -> None:
    class Others(Samples):
        def __getitem__(self, number: int) -> Any:
            return make(number)

    with pytest.raises(Abstain, match=said):
        part_to_pack(Others(), NUMBERS)


def test_random_without_its_transform_too() -> None:
    class Always(Samples):
        def __getitem__(self, number: int) -> Any:
            return torch.rand(2), number

    with pytest.raises(Abstain, match="no part of the work is known"):
        part_to_pack(Always(Compose([Scale(), Noise()])), NUMBERS)
