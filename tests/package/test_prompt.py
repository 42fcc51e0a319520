"""At a prompt a call shows its result as `print` does: a table, not the fields of a data class."""

from pathlib import Path

import torch

import cordwood as cw


def test_results_of_calls_are_readable_at_a_prompt(tmp_path: Path) -> None:
    store, copy = tmp_path / "a.cordwood", tmp_path / "b.cordwood"
    rows = [{"x": torch.arange(4) + number} for number in range(5)]
    cw.save({"w": torch.zeros(1000)[:10]}, tmp_path / "x.cord")
    torch.save({"w": torch.zeros(1000)[:10]}, tmp_path / "x.pt")
    results = [
        cw.pack(rows, store, workers=0, progress=False),
        cw.pack(rows, tmp_path / "none.cordwood", workers=0, progress=False, limit=2),
        cw.inspect(store),
        cw.inspect(tmp_path / "x.cord"),
        cw.verify(store),
        cw.merge([store], copy),
        cw.trim(tmp_path / "x.pt", tmp_path / "y.pt"),
        cw.Loader(cw.open(store), batch_size=2).stats(),
    ]
    for result in results:
        assert repr(result) == str(result)
        assert f"{type(result).__name__}(" not in repr(result)
