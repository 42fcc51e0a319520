"""Who is a suspect: lines that make odd tensors which something slow may take; and who is not."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from cordwood.doctor.replay.layouts import Suspect, suspects
from tests.doctor.support.tapes import record, record_passes


def found(step: Callable[[], object]) -> list[Suspect]:
    tape = record(step)
    return suspects(tape, [1.0] * len(tape.ops))


def sources(step: Callable[[], object]) -> list[str]:
    return [each.made_at.source if each.made_at is not None else "" for each in found(step)]


x = torch.randn(6, 4)


def test_a_transposed_tensor_that_is_added_is_a_suspect_of_the_line_that_made_it() -> None:
    weight = torch.randn(4, 6, requires_grad=True)

    def step() -> None:
        turned = x.t()
        added = turned + weight
        added.exp().sum().backward()
        weight.grad = None

    (suspect,) = found(step)
    assert suspect.made_at is not None
    assert suspect.made_at.source == "turned = x.t()"
    assert suspect.made_by == "aten::t"
    assert [meta.stride for meta in suspect.metas] == [(1, 4)]
    assert suspect.formats == (torch.contiguous_format,)
    lines = {place.source: ms for place, ms in suspect.takers.items()}
    # The sum and the exponential inherit the strides, and so do the gradients that belong to those lines.
    assert set(lines) == {"added = turned + weight", "added.exp().sum().backward()"}
    assert suspect.at_stake_ms == sum(lines.values()) >= 3.0


def test_an_array_taken_over_is_a_suspect_of_that_line() -> None:
    table = np.ones((4, 6), np.float32)

    def step() -> None:
        extra = torch.from_numpy(table.T).double()
        x + extra

    (suspect,) = found(step)
    assert suspect.made_at is not None
    assert suspect.made_at.source == "extra = torch.from_numpy(table.T).double()"
    assert (suspect.is_numpy, suspect.is_kept) == (True, False)


def test_a_tensor_older_than_the_step_is_found_by_the_source() -> None:
    table = torch.randn(4, 6)
    extra = table.t()
    plain = torch.randn(6, 4)

    def step() -> None:
        torch.add(plain, extra)

    (suspect,) = found(step)
    assert suspect.made_at is not None
    assert suspect.made_at.source == "extra = table.t()"
    assert (suspect.is_kept, suspect.is_numpy) == (True, False)


def test_matrix_products_take_transposed_factors_as_they_are() -> None:
    weight = torch.randn(5, 4)
    assert sources(lambda: x @ weight.t()) == []
    assert sources(lambda: functional.linear(x, weight)) == []
    assert sources(lambda: torch.bmm(x.expand(3, 6, 4), weight.t().expand(3, 4, 5))) == []


def test_a_matrix_product_with_gaps_along_both_axes_is_a_suspect() -> None:
    wide = torch.randn(6, 16)

    def step() -> None:
        torch.mm(wide[:, ::2], torch.ones(8, 3))

    assert sources(step) == ["torch.mm(wide[:, ::2], torch.ones(8, 3))"]


def test_what_a_library_makes_and_uses_up_is_not_a_suspect() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    batch = torch.randn(2, 6, 4)

    def step() -> None:
        attention(batch, batch, batch)[0].sum().backward()

    assert sources(step) == []


def test_what_is_written_to_is_not_a_suspect() -> None:
    def through_the_view() -> None:
        turned = x.clone().t()
        turned.add_(1)
        turned.exp()

    def below_the_view() -> None:
        base = x.clone()
        turned = base.t()
        base.add_(1)
        turned.exp()

    def before_and_after() -> None:
        base = x.clone()
        base.add_(1)
        turned = base.t()
        turned.exp()
        base.add_(1)

    assert sources(through_the_view) == []
    assert sources(below_the_view) == []
    assert sources(before_and_after) == ["turned = base.t()"]


def test_parameters_are_not_suspects_since_optimizers_write_to_them() -> None:
    weight = nn.Parameter(torch.randn(4, 6).t())
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step() -> None:
        (weight * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    assert sources(step) == []


def test_views_made_in_a_backward_pass_are_not_suspects() -> None:
    weight = torch.randn(4, 6, requires_grad=True)

    def step() -> None:
        out = weight.t().contiguous()
        (out * x).exp().sum().backward()
        weight.grad = None

    assert [source for source in sources(step) if "backward" in source] == []


def test_contiguous_and_channels_last_are_not_odd() -> None:
    images = torch.randn(2, 5, 5, 3)

    def step() -> None:
        turned = images.permute(0, 3, 1, 2)
        (turned * 2).exp()
        x.view(4, 6).exp()

    assert sources(step) == []


def test_images_are_tried_in_both_formats() -> None:
    images = torch.randn(2, 5, 4, 3)

    def step() -> None:
        turned = images.permute(0, 2, 3, 1)
        turned.exp()

    (suspect,) = found(step)
    assert suspect.formats == (torch.contiguous_format, torch.channels_last)


def test_mixed_memory_formats_make_both_sides_suspects() -> None:
    images = torch.randn(2, 5, 5, 3)

    def step() -> None:
        turned = images.permute(0, 3, 1, 2)
        straight = torch.ones(2, 3, 5, 5)
        turned + straight

    both = found(step)
    assert {(each.made_at.source if each.made_at else "", each.is_mixed, each.formats) for each in both} == {
        ("turned = images.permute(0, 3, 1, 2)", False, (torch.contiguous_format, torch.channels_last)),
        ("straight = torch.ones(2, 3, 5, 5)", True, (torch.channels_last,)),
    }


def test_those_with_most_at_stake_come_first() -> None:
    other = torch.randn(6, 4)

    def step() -> None:
        few = other.t()
        many = x.t()
        few.exp()
        many.exp().sin().cos()

    assert sources(step) == ["many = x.t()", "few = other.t()"]


def test_images_that_are_channels_last_are_no_suspects_for_gradients_of_another_format() -> None:
    """Pooling hands back contiguous gradients, whatever it was given: nobody's line is to blame for that."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    images = torch.randn(2, 8, 8, 3)
    tape = record_passes(lambda: model(images.permute(0, 3, 1, 2)).sum())
    assert any(op.phase == "backward" and not op.inputs[0].is_contiguous for op in tape.ops if op.inputs)
    assert suspects(tape, [1.0] * len(tape.ops)) == []
