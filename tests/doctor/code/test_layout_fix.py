"""Cures are written into the user's own line, or not at all."""

from pathlib import Path

import pytest

from cordwood.doctor.code.layout_fix import mended_array_line, mended_line
from cordwood.doctor.evidence.findings import CodeLine


def place(folder: Path, source: str, line: int = 1) -> CodeLine:
    file = folder / "train.py"
    file.write_text(source)
    return CodeLine(str(file), line)


@pytest.mark.parametrize(
    ("source", "made_by", "mended"),
    [
        ("y = x.t()", "aten::t", "y = x.t().contiguous()"),
        ("y = x.T + 1", "aten::permute", "y = x.T.contiguous() + 1"),
        (
            "y = softmax(x.transpose(1, 2), dim=-1)",
            "aten::transpose.int",
            "y = softmax(x.transpose(1, 2).contiguous(), dim=-1)",
        ),
        ("y = torch.permute(x, (0, 2, 1))", "aten::permute", "y = torch.permute(x, (0, 2, 1)).contiguous()"),
        ("e = torch.from_numpy(a.T).float()", "", "e = torch.from_numpy(a.T).contiguous().float()"),
        ("é = torch.from_numpy(é)", "", "é = torch.from_numpy(é).contiguous()"),
        ("e = from_numpy(a)", "", "e = from_numpy(a).contiguous()"),
        # Not clear, so nothing is said: two of them, none of them, of several lines, a loop's head, another operation.
        ("y = x.t() + z.t()", "aten::t", None),
        ("y = turn(x)", "aten::t", None),
        ("y = f(\n    x.t())", "aten::t", None),
        ("for y in x.t():\n    pass", "aten::t", None),
        ("y = x[:, ::2]", "aten::slice.Tensor", None),
        ("y = (", "aten::t", None),
    ],
)
def test_the_copy_is_put_behind_the_expression_that_makes_the_tensor(
    tmp_path: Path, source: str, made_by: str, mended: str | None
) -> None:
    assert mended_line(place(tmp_path, source), made_by, ".contiguous()") == mended


def test_other_cures_are_put_in_the_same_way(tmp_path: Path) -> None:
    cure = ".to(memory_format=torch.channels_last)"
    assert mended_line(place(tmp_path, "\n\n  \ny = x.permute(0, 3, 1, 2)", 4), "aten::permute", cure) == (
        "y = x.permute(0, 3, 1, 2).to(memory_format=torch.channels_last)"
    )


@pytest.mark.parametrize(
    ("source", "mended"),
    [
        ("e = torch.from_numpy(a.T).float()", "e = torch.from_numpy(np.ascontiguousarray(a.T)).float()"),
        ("e = torch.as_tensor(a, device=d)", "e = torch.as_tensor(np.ascontiguousarray(a), device=d)"),
        ("e = torch.as_tensor(data=a)", None),
        ("e = x.t()", None),
    ],
)
def test_an_array_is_made_contiguous_before_torch_gets_it(tmp_path: Path, source: str, mended: str | None) -> None:
    assert mended_array_line(place(tmp_path, source)) == mended


def test_no_place_no_cure() -> None:
    assert mended_line(None, "aten::t", ".contiguous()") is None
    assert mended_array_line(None) is None
