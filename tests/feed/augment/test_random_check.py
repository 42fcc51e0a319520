"""Transforms that draw once a call are told of when they are given whole batches."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.feed.augment.random_check import warn_if_random
from tests.store.support.small_stores import write_store


def kind(name: str, module: str = "torchvision.transforms.transforms", **parts: Any) -> Any:
    """An object as the class of that name of that package makes it."""
    cls = type(name, (), {"__module__": module, "__call__": lambda self, batch: batch})
    made = cls()
    vars(made).update(parts)
    return made


def random_module(name: str) -> torch.nn.Module:
    made: torch.nn.Module = type(name, (torch.nn.Module,), {"__module__": "torchvision.transforms.v2._geometry"})()
    return made


def compose(*transforms: Any) -> Any:
    return kind("Compose", transforms=list(transforms))


NORMALIZE = kind("Normalize")
DRAW_ONCE = [
    kind("RandomHorizontalFlip"),
    kind("ColorJitter"),
    kind("TrivialAugmentWide", "torchvision.transforms.autoaugment"),
    kind("RandAugment", "torchvision.transforms.v2._auto_augment"),
    kind("RandomErase", "mine", get_params=lambda: None),
    compose(NORMALIZE, kind("RandomApply", transforms=[NORMALIZE])),
    compose(compose(NORMALIZE, compose(kind("RandomCrop")))),
    torch.nn.Sequential(torch.nn.Identity(), random_module("RandomCrop")),
    functools.partial(kind("RandomCrop"), 1),
    kind("RandomCrop").__call__,
    type("RandomTwice", (type(kind("RandomCrop")),), {"__module__": "mine"})(),
]
DRAW_NOT = [
    None,
    NORMALIZE,
    lambda batch: batch,
    compose(NORMALIZE, kind("CenterCrop")),
    kind("RandomResize", "torchvision.transforms.v2._geometry"),
    kind("MixUp", "torchvision.transforms.v2._augment", make_params=lambda: None),
    kind("RandomHorizontalFlip", "kornia.augmentation._2d.geometric.horizontal_flip"),
    kind("AugmentationSequential", "kornia.augmentation.container", transforms=[kind("RandomCrop")]),
    kind("RandomForest", "mine"),
    kind("Compose", transforms="RandomCrop"),
    torch.nn.Sequential(torch.nn.Dropout()),
]


@pytest.mark.parametrize("transform", DRAW_ONCE, ids=lambda transform: type(transform).__name__)
def test_what_draws_once_a_call_is_told_of(transform: Any) -> None:
    with pytest.warns(UserWarning, match=r"draws once a call: .* sample_transform=, .* or use cw.augment"):
        warn_if_random(transform)


@pytest.mark.parametrize("transform", DRAW_NOT, ids=lambda transform: type(transform).__name__)
def test_nothing_else_is(transform: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_random(transform)


def test_the_one_that_draws_is_named_and_one_warning_is_enough() -> None:
    with pytest.warns(UserWarning, match="draws once") as told:
        warn_if_random(compose(NORMALIZE, kind("RandomCrop"), kind("RandomErasing")))
    assert len(told) == 1
    assert "and RandomCrop draws once a call" in str(told[0].message)


def test_one_that_holds_itself_comes_to_an_end() -> None:
    endless = compose(NORMALIZE)
    endless.transforms.append(endless)
    warn_if_random(endless)


def test_a_loader_points_at_its_caller(tmp_path: Path) -> None:
    ds = cw.open(write_store(tmp_path / "x.cordwood", 3))
    with pytest.warns(UserWarning, match="draws once") as told:
        cw.Loader(ds, transform=kind("RandomCrop"))
    assert told[0].filename == __file__


def test_it_points_at_the_code_that_gave_the_transform() -> None:
    def loader(check: Callable[[Any], None]) -> None:
        check(kind("RandomCrop"))

    with pytest.warns(UserWarning, match="draws once") as told:
        loader(warn_if_random)
    assert told[0].filename == __file__
    assert told[0].lineno == loader.__code__.co_firstlineno + 4
