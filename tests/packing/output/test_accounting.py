"""How far a job is, sample by sample: what a shard tells when it ends anywhere among inputs and batches."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.packing.journal.inputs import FAILED, InputEntry, Position, entries
from cordwood.packing.output.accounting import InputCursor, ShardProgress
from cordwood.sources import Input

COUNTS = st.lists(st.sampled_from([0, 1, 2, 5, FAILED]), min_size=1, max_size=12)


@given(COUNTS, st.integers(1, 4), st.data())
def test_a_job_that_goes_on_at_any_position_tells_the_rest(counts: list[int], batch: int, data: st.DataObject) -> None:
    """Samples come in pieces; after any of them a shard can end, and another process go on behind it."""
    inputs = [Input(None, str(number), size=number) for number in range(len(counts))]
    sizes = [10 + number for number in range(sum(count for count in counts if count > 0))]
    progress = ShardProgress(Position())
    cursor = InputCursor(progress, 0, inputs, counts, sizes, batch)
    told: list[tuple[str | None, int]] = []
    done = 0
    while done < len(sizes):
        piece = data.draw(st.integers(1, len(sizes) - done))
        full, again = data.draw(st.booleans()), data.draw(st.booleans())
        cursor.advance(piece, full)
        done += piece
        if not full:
            continue
        place = progress.position
        assert place.input % batch == 0 or place.input == len(counts)
        assert sum(count for count in counts[: place.input] if count > 0) + place.samples == done
        told += [(entry.name, entry.samples) for entry in entries_of(progress)]
        progress.end_shard()
        if again and done < len(sizes):
            before = sum(count for count in counts[: place.input] if count > 0)
            cursor = InputCursor(
                progress, place.input, inputs[place.input :], counts[place.input :], sizes[before:], batch
            )
    cursor.finish()
    told += [(entry.name, entry.samples) for entry in entries_of(progress)]
    assert progress.position == Position(len(counts))
    found: dict[str | None, int] = {}
    for name, samples in told:
        assert name not in found or samples > 0
        found[name] = found.get(name, 0) + samples
    assert found == {str(number): count for number, count in enumerate(counts)}
    totals = progress.totals
    assert (totals.inputs, totals.samples, totals.raw_bytes) == (len(counts), len(sizes), sum(sizes))
    assert (totals.dropped, totals.failed) == (counts.count(0), counts.count(FAILED))
    assert totals.bytes_in == sum(range(len(counts)))


def entries_of(progress: ShardProgress) -> list[InputEntry]:
    return list(entries(progress.lines.text()))
