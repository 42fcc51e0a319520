"""The line that made what another line uses: named where there is only one that it can be."""

from pathlib import Path
from textwrap import dedent

import pytest

from cordwood.doctor.code.layout_origin import origin_of
from cordwood.doctor.evidence.findings import CodeLine


def origin(folder: Path, source: str) -> tuple[str, bool] | None:
    """The source of the line found for the last line of a script."""
    text = dedent(source).strip()
    file = folder / "train.py"
    file.write_text(text)
    found = origin_of(CodeLine(str(file), len(text.splitlines())))
    if found is None:
        return None
    place, numpy = found
    assert text.splitlines()[place.line - 1].strip() == place.source
    return place.source, numpy


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("extra = torch.from_numpy(a.T)\nx = x + extra", ("extra = torch.from_numpy(a.T)", True)),
        ("extra = table.t()\nfor x in batches:\n    y = x * extra", ("extra = table.t()", False)),
        (
            "def f():\n    e: Tensor = t.permute(1, 0)\n    def g(x):\n        return x + e",
            ("e: Tensor = t.permute(1, 0)", False),
        ),
        (
            "class Net:\n    def __init__(self):\n        self.e = t.T\n"
            "    def forward(self, x):\n        return x + self.e",
            ("self.e = t.T", False),
        ),
        (
            "class Net:\n    def __init__(self):\n        self.register_buffer('e', t.T)\n"
            "    def forward(self, x):\n        return x + self.e",
            ("self.register_buffer('e', t.T)", False),
        ),
        # Parts that go by names of their own; several statements in a line; labels from an array beside it.
        (
            "X=torch.from_numpy(d.T)\nfor i in steps:\n    x=X[i:i+9]\n    o.zero_grad(); loss=f(m(x)); o.step()",
            ("X=torch.from_numpy(d.T)", True),
        ),
        (
            "X = torch.from_numpy(d.T)\nY = torch.from_numpy(labels)\nfor i in steps:\n"
            "    x, y = X[i:i+9].to(device), Y[i:i+9]\n    loss = f(m(x), y)",
            ("X = torch.from_numpy(d.T)", True),
        ),
        (
            "d = d.T\nX = torch.from_numpy(d)\nY = torch.from_numpy(labels)\nloss = f(m(X), Y)",
            ("X = torch.from_numpy(d)", True),
        ),
        # Given another value by a loop, a call or several at once; parts of what nobody knows.
        ("x = t.T\nfor x in loader:\n    y = x + 1", None),
        ("x = t.T\ndef f(x):\n    return x + 1", None),
        ("x = t.T\nx, y = batch\nz = x + 1", None),
        ("X = load()\nx = X[1:3]\nz = x + 1", None),
        # Two that it can be; none that turns anything; made contiguous since; another function's; a loop's head.
        ("a = t.T\nb = u.T\nc = a + b", None),
        ("a = t.exp()\nc = a + 1", None),
        ("a = t.T\na = a.contiguous()\nc = a + 1", None),
        ("def f():\n    a = t.T\nc = a + 1", None),
        ("a = t.T\nfor b in a + 1: pass", None),
        ("a = t.T\nc = a +", None),
    ],
)
def test_origins(tmp_path: Path, source: str, expected: tuple[str, bool] | None) -> None:
    assert origin(tmp_path, source) == expected


def test_a_file_that_is_not_there_has_no_origins(tmp_path: Path) -> None:
    assert origin_of(CodeLine(str(tmp_path / "gone.py"), 3)) is None
