"""Which views share bytes, against sets of bytes."""

import tracemalloc

import pytest
from hypothesis import given, settings

from cordwood.tensors.layout import overlap
from cordwood.tensors.layout.overlap import Cluster, Reach, connected, reach_of
from cordwood.tensors.layout.reachable import View
from tests.tensors.support.storages import addresses, old_addresses, storages


def reach(view: View) -> Reach | None:
    return reach_of(view.offset, view.itemsize, view.shape, view.strides)


def bytes_of(reach: Reach) -> set[int]:
    counts, strides = [count for count, _ in reach.dims], [stride for _, stride in reach.dims]
    return set(addresses(reach.offset, reach.run, counts, strides))


def plainly_connected(reaches: list[Reach]) -> list[tuple[list[int], bool]]:
    """By comparing everything with everything."""
    clusters: list[tuple[list[int], set[int]]] = []
    for number, one in enumerate(reaches):
        members, reached = [number], bytes_of(one)
        apart = []
        for cluster in clusters:
            if cluster[1] & reached:
                members, reached = members + cluster[0], reached | cluster[1]
            else:
                apart.append(cluster)
        clusters = [*apart, (members, reached)]
    return sorted((sorted(members), len(reached) == max(reached) - min(reached) + 1) for members, reached in clusters)


@settings(max_examples=300)
@given(storages())
def test_a_reach_is_the_bytes_of_its_view(drawn: tuple[int, list[View]]) -> None:
    for view in drawn[1]:
        reached = reach(view)
        if reached is None:
            assert 0 in view.shape
        else:
            assert bytes_of(reached) == set(old_addresses(view))
            assert reached.end == max(old_addresses(view)) + 1


@pytest.mark.parametrize("strip", [1, 7, 64, 1 << 20])
@settings(max_examples=150)
@given(drawn=storages())
def test_clusters_are_those_of_the_bytes(strip: int, drawn: tuple[int, list[View]]) -> None:
    reaches = [found for view in drawn[1] if (found := reach(view))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_STRIP", strip)
        clusters = connected(reaches)
    assert sorted((sorted(members), dense) for members, dense in clusters) == plainly_connected(reaches)
    starts = [min(reaches[number].offset for number in cluster.members) for cluster in clusters]
    assert starts == sorted(starts)


def test_the_same_bytes_in_other_dimensions_are_one_reach() -> None:
    plain = reach_of(8, 4, (6, 5), (20, 4))
    assert plain == Reach(8, 128, 120)
    assert reach_of(8, 4, (5, 6), (4, 20)) == plain  # transposed
    assert reach_of(8, 4, (30,), (4,)) == plain  # flat
    assert reach_of(8, 4, (9, 1, 30), (0, 400, 4)) == plain  # expanded
    assert reach_of(8, 4, (28, 3), (4, 4)) == plain  # windows of three
    assert reach_of(8, 4, (4, 2, 3, 5), (20, 20, 4, 4)) == reach_of(8, 4, (5, 7), (20, 4))  # windows of a matrix
    assert reach_of(8, 4, (6, 3), (32, 8)) == Reach(8, 188, 4, ((6, 32), (3, 8)))  # one item of a row short of that
    assert reach_of(8, 4, (), ()) == Reach(8, 12, 4)
    assert reach_of(8, 4, (3, 0), (4, 4)) is None


def test_what_repeats_alike_is_settled_without_painting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_Canvas", None)
    columns = [Reach(4 * column, 4 * column + 4 + 4000 * 99_999, 4, ((100_000, 4000),)) for column in range(1000)]
    assert connected(columns) == [Cluster([column], False) for column in range(1000)]
    everything = [Reach(2 * k, 2 * k + 3 + 8 * 9, 3, ((10, 8),)) for k in range(3)]
    everything.append(Reach(5, 8 + 8 * 9, 3, ((10, 8),)))
    assert connected(everything) == [Cluster([0, 1, 2, 3], True)]
    rows = [Reach(4000 * row, 4000 * row + 4000, 4000) for row in range(1000)]
    assert connected(rows) == [Cluster([row], True) for row in range(1000)]
    # One that has all of it has all of them.
    assert connected([*columns, Reach(0, 400_000_000, 400_000_000)]) == [
        Cluster([*range(1), 1000, *range(1, 1000)], True)
    ]


def test_what_repeats_alike_in_other_rows_meets_in_those_they_share() -> None:
    rows = [Reach(100 * row, 100 * row + 2 + 300, 2, ((4, 100),)) for row in (0, 3, 4, 7)]
    assert connected(rows) == [Cluster([0, 1, 2, 3], False)]
    apart = [Reach(100 * row, 100 * row + 2 + 600, 2, ((4, 200),)) for row in (0, 1, 4)]
    assert connected(apart) == [Cluster([0, 2], False), Cluster([1], False)]


def test_columns_that_begin_in_different_rows() -> None:
    columns = [Reach(4 * k + 400 * k, 4 * k + 4 + 400 * 99, 4, ((100 - k, 400),)) for k in range(50)]
    assert connected(columns) == [Cluster([column], False) for column in range(50)]
    crossing = Reach(400 * 60, 400 * 60 + 12, 12)  # the first three columns of row 60
    assert connected([*columns, crossing])[0].members == [0, 1, 2, 50]


@pytest.mark.parametrize("byte", range(19))
def test_rows_across_the_edge_of_a_strip(byte: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_STRIP", 10)
    rows = Reach(0, 19, 3, ((5, 4),))  # bytes 8, 9 | 10 are a row
    clusters = connected([rows, Reach(byte, byte + 1, 1)])
    assert len(clusters) == (2 if byte % 4 == 3 else 1)


def test_painting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two combs that do not meet; with no strokes left they count as one, which loses nothing.
    combs = [Reach(0, 91, 1, ((10, 10),)), Reach(1, 73, 1, ((9, 9),))]
    assert {tuple(cluster.members) for cluster in connected([combs[0], Reach(5, 86, 1, ((9, 10),))])} == {(0,), (1,)}
    monkeypatch.setattr(overlap, "_FREE", 0)
    monkeypatch.setattr(overlap, "_DEPTH", 0)
    assert connected(combs) == [Cluster([0, 1], False)]


def test_memory_does_not_grow_with_the_storage() -> None:
    # Granules of one byte in a storage of 200 MB, and one strip of 16 MiB beside what counting it takes.
    wide = [Reach(0, 2 * 10**8 + 1, 1, ((101, 2 * 10**6),)), Reach(50, 198 * 10**6 + 51, 1, ((100, 2 * 10**6),))]
    tracemalloc.start()
    try:
        assert [cluster.members for cluster in connected(wide)] == [[0], [1]]
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
