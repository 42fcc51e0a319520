"""What can be reached is kept, the rest goes, and what was shared stays shared."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood.tensors.layout import reachable
from cordwood.tensors.layout.reachable import Copy, Placed, StorageLayout, View, ViewGroup, fill, lay_out
from tests.tensors.support.storages import filled, new_addresses, old_addresses, storages, view_of


def matrix(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(1, np.prod(shape) + 1).astype(dtype).reshape(shape)


def check(views: list[View], nbytes: int, layout: StorageLayout) -> None:
    """Everything that holds for any layout, against the plain model."""
    old = np.random.default_rng(nbytes).integers(1, 256, nbytes, dtype=np.uint8)
    new = filled(layout, old)
    there: dict[int, int] = {}
    for number, view in enumerate(views):
        place = layout.placed[number]
        before, after = old_addresses(view), new_addresses(layout, views, number)
        assert [old[address] for address in before] == [new[address] for address in after]
        assert len(place.strides) == len(view.strides)
        assert not any(n % view.itemsize for n in (place.offset, *place.strides))
        assert place.strides == view.strides or not view.is_fixed
        for source, target in zip(before, after, strict=True):
            # One way from old to new for all views: what shared a byte does so after.
            assert there.setdefault(source, target) == target
    # One way back: what shared no byte does not do so after.
    assert len(set(there.values())) == len(there)
    reached = set(there.values())
    assert all(new[address] == 0 for address in range(layout.nbytes) if address not in reached)

    largest = max((view.itemsize for view in views), default=1)
    assert layout.nbytes % largest == 0
    assert len(there) <= layout.nbytes <= -(-nbytes // largest) * largest
    end = 0
    for group in layout.groups:
        assert group.offset >= end
        assert group.offset % max(views[number].itemsize for number in group.views) == 0
        end = group.offset + group.nbytes
        hull = [address for number in group.views for address in old_addresses(views[number])]
        assert (group.source, group.span) == (min(hull), max(hull) + 1 - min(hull))
        assert group.is_verbatim == (not group.copies)
        assert not group.is_verbatim or (
            group.nbytes == group.span and set(hull) == set(range(min(hull), max(hull) + 1))
        )
    assert end <= layout.nbytes
    in_groups = sorted(number for group in layout.groups for number in group.views)
    assert in_groups == [number for number, view in enumerate(views) if 0 not in view.shape]


def laid_out(base: np.ndarray, *arrays: np.ndarray) -> StorageLayout:
    views = [view_of(array, base) for array in arrays]
    layout = lay_out(views, base.nbytes)
    check(views, base.nbytes, layout)
    return layout


@settings(max_examples=400)
@given(storages())
@example((16, [View(0, 1, (7,), (1,)), View(7, 1, (3,), (1,)), View(8, 8, (1,), (8,))]))
@example((16, [View(0, 1, (2, 2), (5, 3)), View(1, 1, (2, 2), (5, 3))]))
def test_any_views_of_any_storage(drawn: tuple[int, list[View]]) -> None:
    nbytes, views = drawn
    check(views, nbytes, lay_out(views, nbytes))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=12))
def test_pieces_are_laid_out_as_any_views_are(pieces: list[tuple[int, int, int]]) -> None:
    views = [View(4 * start, 4, (rows, items), (4 * items, 4)) for start, rows, items in pieces]
    expected = reachable._of_views(views, 240, whole=False)
    assert lay_out(views, 240) == expected
    assert reachable._of_pieces(views, 240) == expected


@settings(max_examples=200)
@given(storages())
def test_whole_storages_stay_as_they_are(drawn: tuple[int, list[View]]) -> None:
    nbytes, views = drawn
    layout = lay_out(views, nbytes, whole=True)
    old = np.arange(nbytes).astype(np.uint8)
    assert layout.nbytes == nbytes
    assert filled(layout, old).tolist() == old.tolist()
    assert [(place.offset, place.strides) for place in layout.placed] == [(v.offset, v.strides) for v in views]


def test_a_view_of_everything_is_the_storage() -> None:
    x = matrix(10, 3)
    assert laid_out(x, x) == StorageLayout(120, (ViewGroup(0, 120, 0, 120, (0,), (), True),), (Placed(0, (12, 4)),))
    assert laid_out(x, x.T).placed == (Placed(0, (4, 12)),)
    assert laid_out(x, x, x.T, x[3]).groups == (ViewGroup(0, 120, 0, 120, (0, 1, 2), (), True),)


def test_a_slice_leaves_its_batch() -> None:
    batch = matrix(16, 3, 4, 4)
    layout = laid_out(batch, batch[5])
    assert layout.nbytes == 3 * 4 * 4 * 4
    assert layout.groups == (ViewGroup(0, 192, 5 * 192, 192, (0,), (), True),)
    assert layout.placed == (Placed(0, (64, 16, 4)),)


def test_slices_close_ranks_and_keep_their_order() -> None:
    batch = matrix(16, 6)
    layout = laid_out(batch, batch[9], batch[2:4], batch[3])
    assert layout.nbytes == 3 * 24
    assert [(group.offset, group.source, group.views) for group in layout.groups] == [(0, 48, (1, 2)), (48, 216, (0,))]
    assert [place.offset for place in layout.placed] == [48, 0, 24]


def test_columns_whose_hulls_overlap_share_nothing() -> None:
    x = matrix(10, 8)
    layout = laid_out(x, x[:, 0:2], x[:, 2:4])
    assert layout.nbytes == 2 * 10 * 8
    assert [group.views for group in layout.groups] == [(0,), (1,)]
    assert layout.placed == (Placed(0, (8, 4)), Placed(80, (8, 4)))
    assert layout.groups[1].copies == (Copy(0, 0, (10,), (32,), (8,), 8),)


def test_overlapping_columns_are_re_strided_together() -> None:
    x = matrix(10, 20)
    layout = laid_out(x, x[:, :5], x[:, 3:8])
    assert layout.nbytes == 10 * 8 * 4
    assert layout.placed == (Placed(0, (32, 4)), Placed(12, (32, 4)))
    assert len(layout.groups) == 1


def test_rows_and_columns_that_cross_keep_their_rows() -> None:
    x = matrix(10, 20)
    # Rows 0, 1 and 2 of the first 8 columns, of which only the first row reaches columns 5 to 7.
    layout = laid_out(x, x[:3, :5], x[0, 2:8])
    assert layout.nbytes == (2 * 8 + 5) * 4
    assert layout.placed == (Placed(0, (32, 4)), Placed(8, (4,)))


def test_a_view_over_the_end_of_a_row_moves_the_beginning_of_the_rows() -> None:
    x = matrix(10, 20)
    layout = laid_out(x, x[:, :5], x.reshape(-1)[18:24])
    # Rows of columns 18, 19 and 0 to 4; the first of them has only its end.
    assert layout.placed == (Placed(0, (28, 4)), Placed(5 * 4, (4,)))
    assert layout.nbytes == (9 * 7 + 5) * 4


def test_a_view_longer_than_a_row_keeps_the_hull_with_zeros() -> None:
    x = matrix(10, 20)
    layout = laid_out(x, x[:, :5], x.reshape(-1)[18:39])
    assert layout.nbytes == (9 * 20 + 5) * 4
    assert layout.placed == (Placed(0, (80, 4)), Placed(72, (4,)))
    assert not layout.groups[0].is_verbatim


def test_every_second_row_and_column() -> None:
    x = matrix(10, 12)
    layout = laid_out(x, x[::2, ::3])
    assert layout.nbytes == 5 * 4 * 4
    assert layout.placed == (Placed(0, (16, 4)),)


def test_views_of_every_second_and_every_third_row_share_every_sixth() -> None:
    x = matrix(13, 12)
    layout = laid_out(x, x[::2, :3], x[::3, 2:4])
    assert layout.placed == (Placed(0, (2 * 16, 4)), Placed(8, (3 * 16, 4)))
    assert layout.nbytes == 13 * 16


def test_a_lone_view_keeps_its_order_of_dimensions() -> None:
    images = matrix(4, 6, 5, 3)  # (n, h, w, c) in memory
    channels_last = images[:, :4, :2].transpose(0, 3, 1, 2)
    layout = laid_out(images, channels_last)
    assert layout.nbytes == 4 * 4 * 2 * 3 * 4
    assert layout.placed == (Placed(0, (4 * 2 * 3 * 4, 4, 2 * 3 * 4, 3 * 4)),)


def test_a_dimension_of_one_keeps_its_rank() -> None:
    images = matrix(4, 6, 5, 1)
    channels_last = images[:, :4, :2].transpose(0, 3, 1, 2)
    assert laid_out(images, channels_last).placed == (Placed(0, (32, 4, 8, 4)),)
    first = images.reshape(4, 1, 6, 5)[:, :, :4, :2]
    assert laid_out(images, first).placed == (Placed(0, (32, 32, 8, 4)),)
    # Where nothing is re-strided, not even these change.
    odd = View(8, 4, (1, 3), (400, 4))
    assert lay_out([odd], 480).placed == (Placed(0, (400, 4)),)


def test_transposed_slices() -> None:
    x = matrix(6, 10)
    assert laid_out(x, x.T[2:7]).placed == (Placed(0, (4, 20)),)
    assert laid_out(x, x.T[2:7]).nbytes == 6 * 5 * 4


def test_expanded_views_stay_as_small_as_their_memory() -> None:
    x = matrix(6, 10)
    layout = laid_out(x, np.broadcast_to(x[2, 3:5], (1000, 2)), np.broadcast_to(x[4, 4:5], (7, 7)))
    assert layout.nbytes == 12
    assert layout.placed == (Placed(0, (0, 4)), Placed(8, (0, 0)))


def test_expanded_and_re_strided() -> None:
    x = matrix(6, 10)
    layout = laid_out(x, np.broadcast_to(x[:, None, :3], (6, 5, 3)))
    assert layout.placed == (Placed(0, (12, 0, 4)),)
    assert layout.nbytes == 72


def test_windows_that_overlap_themselves() -> None:
    x = matrix(40)
    windows = np.lib.stride_tricks.sliding_window_view(x, 5)
    assert laid_out(x, windows[3:9]).groups[0].is_verbatim
    # Every second element, in windows of three.
    layout = laid_out(x, np.lib.stride_tricks.sliding_window_view(x[::2], 3))
    assert layout.placed == (Placed(0, (4, 4)),)
    assert layout.nbytes == 80


def test_a_diagonal_closes_up() -> None:
    x = matrix(8, 8)
    layout = laid_out(x, np.lib.stride_tricks.as_strided(x, (8,), (36,)))
    assert layout.placed == (Placed(0, (4,)),)
    assert layout.nbytes == 32


def test_a_diagonal_that_meets_rows_keeps_the_hull_with_zeros() -> None:
    x = matrix(8, 8)
    layout = laid_out(x, np.lib.stride_tricks.as_strided(x, (4,), (36,)), x[1:3].reshape(-1))
    assert layout.nbytes == (3 * 9 + 1) * 4
    assert len(layout.groups) == 1


def test_groups_that_interleave_and_cannot_close_up_are_no_larger_than_the_storage() -> None:
    first, second = View(0, 1, (2, 2), (5, 3)), View(1, 1, (2, 2), (5, 3))
    views = [first, View(3, 1, (2, 2), (5, 3)), second, View(4, 1, (2, 2), (5, 3))]
    layout = lay_out(views, 13)
    check(views, 13, layout)
    assert layout.nbytes <= 13


def test_scalars() -> None:
    x = matrix(6, 10)
    layout = laid_out(x, x[2, 3:4].reshape(()), x[5, 9:].reshape(()))
    assert layout.nbytes == 8
    assert layout.placed == (Placed(0, ()), Placed(4, ()))


def test_nothing_reached_is_nothing_kept() -> None:
    assert lay_out([], 100) == StorageLayout(0, (), ())
    x = matrix(6, 10)
    empty = laid_out(x, x[:, 4:4], x[6:])
    assert empty == StorageLayout(0, (), (Placed(0, (40, 4)), Placed(0, (40, 4))))
    layout = laid_out(x, x[:, 4:4], x[5])
    assert layout.nbytes == 40
    assert [group.views for group in layout.groups] == [(1,)]


def test_fixed_strides_stay() -> None:
    x = matrix(10, 8)
    columns = view_of(x[:, :3], x, fixed=True)
    layout = lay_out([columns], x.nbytes)
    check([columns], x.nbytes, layout)
    assert layout.nbytes == (9 * 8 + 3) * 4
    # A fixed view that closing up leaves as it is does not stand in the way.
    views = [view_of(x[:, :3], x), view_of(x[4, 1:5], x, fixed=True)]
    layout = lay_out(views, x.nbytes)
    check(views, x.nbytes, layout)
    assert layout.placed == (Placed(0, (20, 4)), Placed(4 * 20 + 4, (4,)))


def test_two_itemsizes_on_one_memory() -> None:
    x = matrix(10, 8)
    halves = x.view(np.int16)
    layout = laid_out(x, x[:, 2:4], halves[:, 5:9])
    assert layout.nbytes == 9 * 12 + 10 + 2
    assert layout.placed == (Placed(0, (12, 4)), Placed(2, (12, 2)))


def test_the_period_is_rounded_up_for_the_largest_item() -> None:
    x = matrix(10, 32, dtype="uint8")
    layout = laid_out(x, x[:, 8:16].view(np.int64), x[:, 6:9])
    # Bytes 6 to 15 of each row: the period is 16, and the rows begin where the int64 are in place.
    assert layout.placed == (Placed(8, (16, 8)), Placed(6, (16, 1)))
    assert layout.nbytes == 160


def test_alignment_that_would_cost_more_than_the_gap_keeps_the_hull() -> None:
    x = matrix(4, 6, dtype="uint8")
    views = [View(0, 1, (4, 5), (6, 1)), View(4, 4, (1,), (4,))]
    layout = lay_out(views, x.nbytes)
    check(views, x.nbytes, layout)
    assert layout.placed == (Placed(0, (6, 1)), Placed(4, (4,)))


def test_groups_begin_where_their_largest_item_may_stand() -> None:
    views = [View(0, 1, (3,), (1,)), View(32, 8, (2,), (8,)), View(60, 1, (1,), (1,))]
    layout = lay_out(views, 64)
    check(views, 64, layout)
    assert [group.offset for group in layout.groups] == [0, 8, 24]
    assert layout.nbytes == 32


def test_odd_offsets_come_into_place() -> None:
    # Two storages over one memory, merged: the second began at an odd address.
    views = [View(3, 4, (5,), (4,)), View(40, 2, (2,), (2,))]
    layout = lay_out(views, 44)
    assert layout.placed == (Placed(0, (4,)), Placed(20, (2,)))
    mixed = [View(3, 4, (5,), (4,)), View(4, 1, (7,), (1,))]
    assert lay_out(mixed, 44).placed == (Placed(0, (4,)), Placed(1, (1,)))
    leading = [View(3, 4, (5,), (4,)), View(1, 1, (7,), (1,))]
    layout = lay_out(leading, 44)
    assert layout.placed == (Placed(4, (4,)), Placed(2, (1,)))
    old = np.arange(44, dtype=np.uint8)
    assert filled(layout, old).tolist() == [0, 0, *range(1, 23)]


def test_odd_offsets_that_cannot_be_mended_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot all be multiples of their itemsizes: 0 \(itemsize 4\), 3"):
        lay_out([View(0, 4, (5,), (4,)), View(3, 4, (5,), (4,))], 44)
    with pytest.raises(ValueError, match="cannot all be multiples"):
        lay_out([View(3, 4, (5,), (4,))], 44, whole=True)


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (View(0, 4, (26,), (4,)), "reaches from 0 to 104, but the storage has 100"),
        (View(-4, 4, (2,), (4,)), "reaches from -4"),
        (View(0, 4, (2, 2), (4,)), "argument"),
        (View(0, 4, (2,), (-4,)), "no multiples"),
        (View(0, 4, (2,), (6,)), "no multiples"),
        (View(0, 4, (-2,), (4,)), "no view"),
        (View(0, 0, (2,), (4,)), "no view"),
    ],
)
def test_views_that_cannot_be(view: View, said: str) -> None:
    for whole in (False, True):
        with pytest.raises(ValueError, match=said):
            lay_out([view], 100, whole=whole)


def test_fill_looks_at_what_it_is_given() -> None:
    x = matrix(10, 8)
    (group,) = laid_out(x, x[:, :2]).groups
    with pytest.raises(ValueError, match="takes 296 bytes to fill 80, but was given 320 to fill 80"):
        fill(group, x.reshape(-1).view(np.uint8), np.empty(80, np.uint8))


def test_views_that_visit_bytes_over_and_over_are_taken_whole() -> None:
    # A million million visits to five million bytes; the few that it does not reach are not worth finding.
    view = View(1000, 1, (10**6, 10**6), (3, 2))
    layout = lay_out([view], 6 * 10**6)
    assert layout.groups == (ViewGroup(0, 4999996, 1000, 4999996, (0,), (), True),)
    assert layout.placed == (Placed(0, (3, 2)),)


def test_nor_are_they_re_strided_with_others() -> None:
    views = [View(0, 1, (2000, 2000), (6, 4)), View(0, 1, (1000,), (30,))]
    layout = lay_out(views, 30_000)
    assert layout.placed == (Placed(0, (6, 4)), Placed(0, (30,)))
    assert layout.groups[0].copies == (
        Copy(0, 0, (), (), (), 1999 * 6 + 1999 * 4 + 1),
        Copy(0, 0, (1000,), (30,), (30,), 1),
    )


def test_sliding_slices_are_copied_once() -> None:
    x = matrix(100, 8)
    layout = laid_out(x, *(x[row : row + 10, 2:5] for row in range(0, 90, 2)))
    assert layout.nbytes == 98 * 12
    assert layout.groups[0].copies == (Copy(0, 0, (98,), (32,), (12,), 12),)


def test_long_runs() -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 3 << 20), dtype=np.uint8)
    layout = lay_out([view_of(x[:, : 2 << 20], x)], x.nbytes)
    (group,) = layout.groups
    assert filled(layout, x.reshape(-1)[: group.span]).tobytes() == x[:, : 2 << 20].tobytes()
