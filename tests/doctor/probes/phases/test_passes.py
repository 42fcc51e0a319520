"""Copies to a device, tried with the meta device: it is not the host, and nothing more is needed of it here."""

import sys

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.probes.phases.clock import OTHER, TRANSFER
from cordwood.doctor.probes.phases.passes import TransferProbe
from cordwood.doctor.probes.phases.recorder import Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(Evidence(), lambda number: False)


def test_copies_to_a_device_are_counted_by_line(recorder: Recorder) -> None:
    to = TransferProbe(recorder).timing(torch.Tensor.to)
    recorder.clock.take()
    for _ in range(3):
        assert to(torch.zeros(256), "meta", non_blocking=True).device.type == "meta"
    assert to(torch.zeros(2), "meta").shape == (2,)
    several, one = recorder.evidence.transfers
    assert (several.calls, several.nbytes, several.blocking, several.unpinned) == (3, 3072, 0, 3)
    assert (one.calls, one.nbytes, one.blocking) == (1, 8, 1)
    assert one.place is not None
    assert one.place.line == sys._getframe().f_lineno - 5
    spent = recorder.clock.take()
    assert spent[TRANSFER] / 1e6 == pytest.approx(several.milliseconds + one.milliseconds)


def test_what_copies_nothing_to_a_device_belongs_to_the_phase_around_it(recorder: Recorder) -> None:
    to = TransferProbe(recorder).timing(torch.Tensor.to)
    recorder.clock.take()
    assert to(torch.zeros(100_000), torch.float64).dtype == torch.float64
    spent = recorder.clock.take()
    assert spent[TRANSFER] == 0
    assert spent[OTHER] > 0
    assert recorder.evidence.transfers == []


def test_copies_into_a_tensor_on_a_device(recorder: Recorder) -> None:
    copy_ = TransferProbe(recorder).timing(torch.Tensor.copy_)
    copy_(torch.empty(16, device="meta"), torch.zeros(16))
    copy_(torch.empty(16), torch.zeros(16))
    (call,) = recorder.evidence.transfers
    assert (call.calls, call.nbytes) == (1, 64)


def test_another_threads_copies_pass_through(recorder: Recorder) -> None:
    to = TransferProbe(recorder).timing(torch.Tensor.to)
    recorder.clock.thread = None
    to(torch.zeros(256), "meta")
    assert recorder.evidence.transfers == []
