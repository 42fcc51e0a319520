"""What the rule about waiting for data says."""

from dataclasses import replace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen
from cordwood.doctor.evidence.fetches import Fetches, FetchFunction
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.rules.data.data_starved import DataStarved, spread_of_waiting
from tests.doctor.support.evidences import make_evidence

ITERATED = CodeLine("train.py", 40, "main", "for batch in loader:")
DECODING = CodeLine("data.py", 12, "Photos.__getitem__", "image = Image.open(path).convert('RGB')")

FETCHES = Fetches(
    batches=50,
    batches_profiled=6,
    workers=2,
    get_ms=50.0,
    stage_ms={"read": 5.0, "decode": 30.0, "transform": 15.0, "collate": 2.0, "transfer": 1.0},
    functions=[FetchFunction("ImagingDecoder.decode", "", 0, 28.0, "decode")],
    lines=[(DECODING, 33.0)],
    bytes_read_per_batch=2e6,
    disk_bytes_per_batch=0.0,
    files=["a.jpg"],
    device="ext4 on /dev/sda1 (hard disk)",
    read_mb_per_s=400.0,
    worker_busy_share=0.97,
    sent_bytes_per_batch=5e6,
)


def evidence_of(
    wait: float = 30.0, fetches: Fetches | None = FETCHES, steps: int = 60, jitter: float = 0.02
) -> Evidence:
    evidence = make_evidence(steps=steps, jitter=jitter, wait=wait, forward=20.0)
    evidence.fetches = fetches
    evidence.loaders.append(LoaderSeen(object(), ITERATED, batches=60, epochs=1, is_training=True))
    return evidence


def test_waiting_is_told_with_its_stage_and_line() -> None:
    (finding,) = DataStarved().judge(evidence_of(jitter=0.0))
    assert finding.rule == "data-starved"
    assert "60% of each step is waiting for data: 30.0 of 50.0 ms" in finding.message
    assert "in 2 workers, most of it to decode: 30.0 ms" in finding.message
    assert finding.place == DECODING
    assert finding.saves_ms == pytest.approx(30.0, abs=1.0)
    assert finding.verified == "measured"
    assert finding.level is None
    assert "cw.pack(dataset" in finding.fix
    assert finding.details[0].rows[1] == ("decode", "30.00 ms")
    assert finding.details[1].rows == (("ImagingDecoder.decode", "C", "decode", "28.00 ms"),)
    assert finding.details[2].rows[0][0] == "data.py:12"
    assert finding.details[3].rows == (("2", "97%"),)


def test_reading_names_the_device_and_its_speed() -> None:
    slow = replace(FETCHES, stage_ms={**FETCHES.stage_ms, "read": 60.0}, disk_bytes_per_batch=2e6)
    (finding,) = DataStarved().judge(evidence_of(fetches=slow))
    assert "most of it to read: 60.0 ms for 2.0 MB from ext4 on /dev/sda1 (hard disk), 400 MB/s" in finding.message
    assert "page cache" not in finding.message
    assert "RAM" in finding.fix
    assert "NVMe" in finding.fix
    assert "cw.pack(dataset" in finding.fix
    (finding,) = DataStarved().judge(evidence_of(fetches=replace(slow, disk_bytes_per_batch=0.0)))
    assert "page cache" in finding.message


def test_batches_through_a_pipe() -> None:
    piped = replace(FETCHES, stage_ms={**FETCHES.stage_ms, "transfer": 60.0}, workers=1)
    (finding,) = DataStarved().judge(evidence_of(fetches=piped))
    assert (
        "in 1 worker, most of it to get it from a worker to training: 60.0 ms (5.0 MB through a pipe)"
        in finding.message
    )


def test_the_loop_is_named_where_no_line_stands_out() -> None:
    (finding,) = DataStarved().judge(evidence_of(fetches=replace(FETCHES, lines=[(DECODING, 5.0)])))
    assert finding.place == ITERATED
    (finding,) = DataStarved().judge(evidence_of(fetches=replace(FETCHES, lines=[])))
    assert finding.place == ITERATED


@pytest.mark.parametrize(("wait", "level"), [(8.0, "info"), (30.0, None)])
def test_without_a_line_to_blame_it_takes_much_waiting(wait: float, level: str | None) -> None:
    blameless = replace(FETCHES, stage_ms={"transform": 40.0, "collate": 2.0, "transfer": 1.0}, lines=[])
    (finding,) = DataStarved().judge(evidence_of(wait=wait, fetches=blameless))
    assert finding.level == level
    assert (finding.saves_ms is None) == (level == "info")


def test_without_a_look_inside_the_waiting_is_told_all_the_same() -> None:
    evidence = evidence_of(fetches=None)
    evidence.missing["fetches"] = "this torch has a DataLoader of another make"
    (finding,) = DataStarved().judge(evidence)
    assert finding.message.endswith("cannot be told: this torch has a DataLoader of another make")
    assert finding.details == ()
    unprofiled = replace(FETCHES, batches_profiled=0, stage_ms={"collate": 2.0, "transfer": 1.0}, notes=["no profile"])
    (finding,) = DataStarved().judge(evidence_of(fetches=unprofiled))
    assert finding.details[0].rows[0] == ("get samples", "50.00 ms")
    assert finding.details[-1].rows == (("no profile",),)


def test_what_any_loader_costs_is_no_gain() -> None:
    evidence = evidence_of()
    # Handing over a batch takes a copy at least: here that is the most of what is waited for.
    evidence.loaders[0].last_batch = [torch.zeros(1 << 20)]
    evidence.micro_batches = 1e6
    assert DataStarved().judge(evidence) == []


@pytest.mark.parametrize("wait", [0.0, 1.0, 2.1])
def test_a_little_waiting_is_fine(wait: float) -> None:
    assert DataStarved().judge(evidence_of(wait=wait)) == []


def test_few_steps_say_nothing() -> None:
    with pytest.raises(Abstain, match="at least 20"):
        DataStarved().judge(evidence_of(steps=19))


def test_the_spread_comes_from_blocks_of_steps() -> None:
    calm, wild = evidence_of(jitter=0.01).steps, evidence_of(jitter=0.2).steps
    assert calm is not None
    assert wild is not None
    assert 0 < spread_of_waiting(calm) < spread_of_waiting(wild)


def drawing_anew(workers: int, wait: float = 30.0, batch_size: int = 8) -> Evidence:
    evidence = evidence_of(wait=wait, fetches=replace(FETCHES, workers=workers, lines=[]), jitter=0.0)
    loader = DataLoader(TensorDataset(torch.arange(64.0)), batch_size, shuffle=True, num_workers=workers)
    evidence.loaders[0] = LoaderSeen(loader, ITERATED, batches=60, epochs=60, is_training=True)
    return evidence


def test_a_new_iterator_for_every_batch_is_what_is_waited_for() -> None:
    (finding,) = DataStarved().judge(drawing_anew(workers=2))
    assert finding.message.startswith(
        "60% of each step is waiting for data: 30.0 of 50.0 ms; a new iterator is begun for every batch: 60 iterators "
        "for 60 batches, and its 2 workers are started and stopped each time"
    )
    assert "to make" not in finding.message
    assert "endless(" in finding.fix
    assert finding.details == ()
    assert finding.place == ITERATED


def test_without_workers_it_is_the_making_of_a_batch_unless_waiting_goes_far_beyond_it() -> None:
    (finding,) = DataStarved().judge(drawing_anew(workers=0, wait=60.0))  # a batch takes 53 ms to make
    assert "A batch takes 53.0 ms to make" in finding.message
    (finding,) = DataStarved().judge(drawing_anew(workers=0, wait=100.0))
    assert "a new iterator is begun for every batch" in finding.message


@pytest.mark.parametrize(("workers", "level"), [(0, "info"), (2, None)])
def test_how_much_a_new_iterator_costs_without_workers_is_left_to_its_trial(workers: int, level: str | None) -> None:
    evidence = drawing_anew(workers, wait=8.0)
    quick = {"transform": 2.0, "collate": 0.2, "transfer": 0.0}
    evidence.fetches = replace(FETCHES, get_ms=2.0, stage_ms=quick, lines=[])
    (finding,) = DataStarved().judge(evidence)
    assert "a new iterator is begun for every batch" in finding.message
    assert finding.level == level


def test_samples_in_memory_can_be_indexed_by_whole_batches() -> None:
    (finding,) = DataStarved().judge(drawing_anew(workers=0, batch_size=64))  # an epoch is one batch
    assert "\nloader = DataLoader(dataset, sampler=order, batch_size=None)" in finding.fix
