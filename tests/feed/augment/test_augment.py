"""Augmentation draws what torchvision draws, the same by seed for ever, and chains of steps are what they say."""

import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.feed import augment
from cordwood.feed.augment import Augmentation, CenterCrop, RandomCrop, RandomFlip, RandomResizedCrop, Step
from tests.feed.support.resizing import Case, by_pillow
from tests.feed.support.torchvision_draws import centre, resized_crop

Array = npt.NDArray[Any]
MANY = 20_000


def seeds(count: int, first: int = 0) -> npt.NDArray[np.uint64]:
    return np.arange(first, first + count, dtype=np.uint64)


def boxes(steps: Step | list[Step], height: Any, width: Any, count: int = MANY) -> Array:
    return Augmentation.of(steps, "image").draw(height, width, seeds(count))[0]


# So many standard deviations, or more, are seen once in 100,000 times by chance; about sixty times it is looked for.
SURPRISING = 4.3


def deviation(chi_square: float, freedom: int) -> float:
    """A chi-square as standard deviations of a normal distribution (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return float(((chi_square / freedom) ** (1 / 3) - 1 + spread) / spread**0.5)


def difference(found: Array, expected: Array) -> float:
    """Between two samples of the same size, in up to 30 bins that the expected values fill evenly."""
    edges = np.unique(np.quantile(expected, np.linspace(0, 1, 31)))[1:-1]
    first, second = (np.bincount(np.searchsorted(edges, values, "right"), minlength=31) for values in (found, expected))
    inhabited = first + second > 0
    if inhabited.sum() == 1:
        return 0.0
    chi_square = (np.square(first - second)[inhabited] / (first + second)[inhabited]).sum()
    return deviation(chi_square, int(inhabited.sum()) - 1)


VIEWS: list[Callable[[Array], Array]] = [
    lambda box: box[:, 0],
    lambda box: box[:, 1],
    lambda box: box[:, 2],
    lambda box: box[:, 3],
    lambda box: box[:, 2] * box[:, 3],
    lambda box: box[:, 3] / box[:, 2],
    lambda box: box[:, 0] + 2 * box[:, 1],
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("height", "width", "scale", "ratio"),
    [
        (256, 256, (0.08, 1.0), (3 / 4, 4 / 3)),
        (375, 500, (0.08, 1.0), (3 / 4, 4 / 3)),
        (32, 32, (0.3, 0.9), (1.0, 1.0)),
        (100, 40, (0.5, 1.0), (0.5, 2.0)),
        (7, 5, (0.01, 1.0), (0.2, 5.0)),
        (300, 60, (0.9, 1.0), (3 / 4, 4 / 3)),  # almost nothing fits: the middle
        (60, 300, (0.9, 1.0), (3 / 4, 4 / 3)),
    ],
)
def test_resized_crops_are_distributed_as_torchvision_draws_them(
    height: int, width: int, scale: Any, ratio: Any
) -> None:
    rng = random.Random(0)
    theirs = np.array([resized_crop(rng, height, width, scale, ratio) for _ in range(MANY)])
    ours = boxes(RandomResizedCrop(16, scale, ratio), height, width)[:, :4]
    top, left, rows, columns = ours.T
    assert min(top.min(), left.min()) >= 0
    assert (top + rows).max() <= height
    assert (left + columns).max() <= width
    assert max(difference(view(ours), view(theirs)) for view in VIEWS) < SURPRISING


@pytest.mark.parametrize(
    "other",
    [
        RandomResizedCrop(16, scale=(0.1, 1.0)),
        RandomResizedCrop(16, scale=(0.08, 0.93)),
        RandomResizedCrop(16, ratio=(0.7, 4 / 3)),
        RandomResizedCrop(16, ratio=(0.75, 1.3)),
    ],
)
def test_the_comparison_sees_distributions_that_are_a_little_different(other: RandomResizedCrop) -> None:
    rng = random.Random(0)
    theirs = np.array([resized_crop(rng, 256, 256, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(MANY)])
    ours = boxes(other, 256, 256)
    assert max(difference(view(ours), view(theirs)) for view in VIEWS) > SURPRISING


def test_where_nothing_fits_it_is_the_largest_allowed_part_in_the_middle() -> None:
    assert (boxes(RandomResizedCrop(8, (1, 1), (1, 1)), 480, 641, 50) == [0, 80, 480, 480, 0]).all()
    assert (boxes(RandomResizedCrop(8, (1, 1), (1, 1)), 641, 480, 50) == [80, 0, 480, 480, 0]).all()
    assert (boxes(RandomResizedCrop(8, (1, 1), (1, 2)), 100, 1000, 50) == [0, 400, 100, 200, 0]).all()
    assert (boxes(RandomResizedCrop(8), 1, 1, 50) == [0, 0, 1, 1, 0]).all()
    assert (boxes(RandomResizedCrop(8, ratio=(3, 4)), 9, 1, 50)[:, 2:4] == 1).all()


@pytest.mark.parametrize("size", [(5, 7), (9, 9), (11, 13)])
def test_every_place_of_a_random_crop_is_as_likely(size: tuple[int, int]) -> None:
    drawn = boxes(RandomCrop(size), 11, 13)
    places = (11 - size[0] + 1) * (13 - size[1] + 1)
    assert (drawn[:, 2:4] == size).all()
    found, counts = np.unique(drawn[:, :2], axis=0, return_counts=True)
    assert len(found) == places
    expected = MANY / places
    assert places == 1 or deviation(np.square(counts - expected).sum() / expected, places - 1) < SURPRISING


@pytest.mark.parametrize(
    ("padding", "tops", "lefts"),
    [(4, (-4, 4), (-4, 4)), ((1, 2), (-2, 2), (-1, 1)), ((1, 2, 3, 0), (-2, 0), (-1, 3))],
)
def test_padding_adds_places_beyond_every_edge(padding: Any, tops: tuple[int, int], lefts: tuple[int, int]) -> None:
    drawn = boxes(RandomCrop(32, padding=padding), 32, 32)
    assert (drawn[:, 0].min(), drawn[:, 0].max()) == tops
    assert (drawn[:, 1].min(), drawn[:, 1].max()) == lefts


def test_only_a_crop_with_padding_fills() -> None:
    assert Augmentation.of(RandomCrop(32, padding=4, fill=7), "image").fill == 7
    assert Augmentation.of(RandomCrop(32, fill=7), "image").fill == 0


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_centre_crops_are_torchvisions(height: int, width: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    assert boxes(CenterCrop(size), height, width, 1).tolist() == [[*centre(height, width, *size), *size, 0]]


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_flips_have_their_probability(p: float) -> None:
    drawn = boxes(RandomFlip(p), 8, 9)
    assert (drawn[:, :4] == [0, 0, 8, 9]).all()
    assert abs(drawn[:, 4].mean() - p) <= 4 * (p * (1 - p) / MANY) ** 0.5


def test_steps_draw_independently() -> None:
    drawn = boxes([RandomResizedCrop(8), RandomFlip(), RandomFlip(0.0)], 256, 256).astype(float)
    correlation = np.corrcoef(drawn[:, [0, 1, 4]].T)  # places depend on sizes, but not on each other or on mirroring
    assert np.abs(correlation[2, :2]).max() < 0.03
    both = boxes([RandomFlip(), RandomFlip()], 8, 8)  # mirrored twice is not mirrored; but they draw apart
    assert abs(both[:, 4].mean() - 0.5) < 0.02


def test_draws_depend_on_the_samples_own_seed_alone() -> None:
    augmentation = Augmentation.of([RandomCrop(200), RandomResizedCrop(24), RandomFlip()], "image")
    whole, size = augmentation.draw(256, 240, seeds(500))
    assert size == (24, 24)
    assert np.array_equal(whole, np.concatenate([augmentation.draw(256, 240, seeds(1, n))[0] for n in range(500)]))
    order = np.random.default_rng(0).permutation(500)
    assert np.array_equal(augmentation.draw(256, 240, seeds(500)[order])[0], whole[order])
    again = pickle.loads(pickle.dumps(augmentation))
    assert np.array_equal(again.draw(256, 240, seeds(500))[0], whole)


@pytest.mark.parametrize(
    "steps", [RandomResizedCrop(24), RandomCrop(20), RandomCrop(20, padding=(1, 2, 3, 4)), CenterCrop((9, 20))]
)
def test_images_of_different_sizes_are_drawn_as_each_alone(steps: Step) -> None:
    heights, widths = np.arange(20, 120), np.arange(120, 20, -1)
    augmentation = Augmentation.of([RandomFlip(), steps], "image")
    together, size = augmentation.draw(heights, widths, seeds(100))
    assert size == augmentation.draw(20, 120, seeds(1))[1]
    for n in range(100):
        alone = augmentation.draw(int(heights[n]), int(widths[n]), seeds(1, n))[0]
        assert np.array_equal(together[n], alone[0])


def test_the_draws_are_a_promise() -> None:
    """A change of these numbers changes every training run that is resumed."""
    assert boxes([RandomResizedCrop(224), RandomFlip()], 256, 256, 4).tolist() == [
        [31, 19, 224, 228, 1],
        [16, 0, 183, 190, 1],
        [12, 85, 131, 141, 1],
        [23, 7, 220, 239, 1],
    ]
    assert boxes([RandomCrop(32, padding=4), RandomFlip()], 32, 32, 4).tolist() == [
        [0, -1, 32, 32, 1],
        [1, -1, 32, 32, 0],
        [1, -2, 32, 32, 0],
        [1, 0, 32, 32, 1],
    ]


def one_by_one(image: Array, steps: list[Step]) -> Array:
    """Steps that leave nothing to chance, done on the image itself."""
    for step in steps:
        if isinstance(step, RandomFlip):
            image = image[..., ::-1] if step.p else image
            continue
        rows, columns = step.size  # type: ignore[misc]
        if isinstance(step, RandomCrop):
            left, top, right, bottom = step.padding  # type: ignore[misc]
            image = np.pad(image, [(0, 0), (top, bottom), (left, right)], constant_values=step.fill)
            assert image.shape[1:] == (rows, columns)
        else:
            top, left = centre(image.shape[1], image.shape[2], rows, columns)
            image = image[:, top : top + rows, left : left + columns]
    return image


@given(st.data())
def test_a_chain_is_what_its_steps_do_one_after_the_other(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    image = np.random.default_rng(0).integers(0, 256, (1, 3, height, width), dtype=np.uint8)
    flip = st.builds(RandomFlip, st.sampled_from([0.0, 1.0]))
    steps: list[Step] = [data.draw(flip)]
    if data.draw(st.booleans()):  # padded as far as it is cut: one place only
        left, top, right, bottom = data.draw(st.tuples(*[st.integers(0, 6)] * 4))
        height, width = height + top + bottom, width + left + right
        steps += [RandomCrop((height, width), padding=(left, top, right, bottom), fill=200), data.draw(flip)]
    for _ in range(data.draw(st.integers(0, 3))):
        height, width = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
        steps += [CenterCrop((height, width)), data.draw(flip)]
    found = augment.apply(image, steps, seeds(1))
    assert np.array_equal(found[0], one_by_one(image[0], steps))


def test_applied_to_images_it_is_the_part_resized() -> None:
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 70, 90), dtype=np.uint8)
    steps: list[Step] = [RandomFlip(), RandomCrop((60, 80)), RandomResizedCrop((40, 50)), RandomFlip()]
    drawn, size = Augmentation.of(steps, "image").draw(70, 90, seeds(8))
    found = augment.apply(images, steps, seeds(8))
    for n in range(8):
        top, left, rows, columns, flip = drawn[n].tolist()
        case = Case(3, 70, 90, (top, left, rows, columns), size, bool(flip), False)
        assert np.array_equal(found[n], by_pillow(images[n], case))
    last = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    assert np.array_equal(found, augment.apply(last, steps, seeds(8), channels_last=True, threads=2))
    tensor = augment.apply(torch.from_numpy(images).to(memory_format=torch.channels_last), steps, seeds(8))
    assert torch.equal(tensor, torch.from_numpy(found))
    floats = augment.apply(images.astype(np.float32), steps, seeds(8))
    assert np.abs(floats - found).max() <= 1.0


@pytest.mark.parametrize(
    ("images", "given_seeds", "said"),
    [
        (np.zeros((2, 3, 8), np.uint8), seeds(2), "four-dimensional"),
        (np.zeros((2, 3, 8, 8), np.int64), seeds(2), "int64"),
        (np.zeros((2, 3, 0, 8), np.uint8), seeds(2), r"\(2, 3, 0, 8\)"),
        (np.zeros((2, 3, 8, 8), np.uint8), seeds(3), "one an image"),
        (np.zeros((2, 3, 8, 8), np.uint8), np.arange(2), "uint64"),
    ],
)
def test_applying_says_what_it_needs(images: Array, given_seeds: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        augment.apply(images, [RandomFlip()], given_seeds)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RandomResizedCrop(0), "RandomResizedCrop: size must be a whole number from 1 to .*, got 0"),
        (lambda: RandomResizedCrop((2, 3, 4)), "a height and a width"),
        (lambda: RandomResizedCrop(2.5), "size must be a whole number .*, got 2.5"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(True), "size must be a whole number .*, got True"),
        (lambda: RandomResizedCrop(1 << 20), "from 1 to 1048575, got 1048576"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 0.1)), "the least first"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 1.5)), "scale is"),
        (lambda: RandomResizedCrop(8, scale=(0.0, 1.0)), "scale is"),
        (lambda: RandomResizedCrop(8, scale=0.5), "two numbers"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(8, ratio=(float("nan"), 1)), "finite"),
        (lambda: RandomResizedCrop(8, ratio=("a", 1)), "is a number"),  # type: ignore[arg-type]
        (lambda: RandomCrop(8, padding=-1), "padding must be a whole number from 0 to 1048575, got -1"),
        (lambda: RandomCrop(8, padding=(1, 2, 3)), "four"),
        (lambda: RandomCrop(8, fill=float("inf")), "fill is inf"),
        (lambda: CenterCrop("big"), "size must be a whole number"),  # type: ignore[arg-type]
        (lambda: RandomFlip(1.5), "from 0 to 1"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(make: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "is empty"),
        ([torch.nn.Identity()], "sample_transform"),
        ("RandomFlip", "none of cw.augment.RandomResizedCrop"),
        ([RandomResizedCrop(64), CenterCrop(32)], "comes after RandomResizedCrop.*Put it before"),
        ([RandomResizedCrop(64), RandomFlip(), RandomResizedCrop(32)], "comes after"),
        ([CenterCrop(32), RandomCrop(32, padding=4)], "padding is added to whole images only"),
        ([CenterCrop(32), RandomCrop((16, 40))], "larger than what CenterCrop"),
    ],
)
def test_chains_that_are_not_one_part_are_refused(steps: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"augment of field 'photo'.*{said}|{said}"):
        Augmentation.of(steps, "photo")


def test_images_that_are_too_small_are_named() -> None:
    with pytest.raises(
        UsageError, match=r"'photo': RandomCrop\(size=\(32, 32\).* of 28 by 30 pixels .* at least 32 by 32"
    ):
        Augmentation.of(RandomCrop(32), "photo").draw(28, 30, seeds(3))
    with pytest.raises(UsageError, match=r"CenterCrop.* of 40 by 30 pixels"):
        Augmentation.of(CenterCrop(32), "photo").draw(np.array([40, 40]), np.array([32, 30]), seeds(2))
    with pytest.raises(UsageError, match=r"of 36 by 30 pixels"):
        Augmentation.of(RandomCrop(32, padding=(0, 4)), "photo").draw(28, 30, seeds(3))
    with pytest.raises(UsageError, match="no pixels"):
        Augmentation.of(RandomResizedCrop(8), "photo").draw(0, 30, seeds(3))


def test_images_that_stay_of_different_sizes_make_no_batch() -> None:
    flips = Augmentation.of(RandomFlip(), "photo")
    assert flips.draw(np.array([8, 8]), np.array([9, 9]), seeds(2))[1] == (8, 9)
    with pytest.raises(UsageError, match=r"different sizes.*Begin with RandomResizedCrop"):
        flips.draw(np.array([8, 8]), np.array([9, 10]), seeds(2))


def test_steps_can_be_compared_and_shown() -> None:
    assert RandomResizedCrop(8) == RandomResizedCrop([8, 8])
    assert RandomCrop((8,)) == RandomCrop(np.int64(8))  # type: ignore[arg-type]
    assert repr(RandomCrop(8, padding=1)) == "RandomCrop(size=(8, 8), padding=(1, 1, 1, 1), fill=0.0)"
    assert len({RandomFlip(), RandomFlip(0.5), CenterCrop(3)}) == 2
