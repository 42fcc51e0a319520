"""The doctor's finding on the demo's script, but for its figures: those would depend on the clock."""

import runpy
from pathlib import Path

from torch.utils.data import DataLoader

from cordwood.demo.acts import doctor
from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.measure.determinism import digest
from cordwood.doctor.trials.pack_change import change_for


def finding_in(folder: Path) -> dict[str, object]:
    """What the doctor says of the script there, but for the figures: those would depend on the clock."""
    script = folder / doctor.NAME
    loader = DataLoader(runpy.run_path(str(script))["Photographs"](), doctor.BATCH, shuffle=True)
    lines = script.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "DataLoader(dataset" in text)
    seen = LoaderSeen(loader, place=None, made_at=CodeLine(str(script), line))
    change = change_for(seen, [0, 7], [digest(loader.dataset[number]) for number in (0, 7)], seconds=300)
    return {
        "rule": doctor.RULE,
        "title": "preprocessing that could be done once",
        "level": "high",
        "file": str(script),
        "line": line,
        "function": "train",
        "source": lines[line - 1].strip(),
        "saves_ms_per_step": 10.0,
        "spread_ms": 0.5,
        "share": 0.5,
        "verified": True,
        "proof": "trial",
        "message": "dataset[i] gives the same samples in every epoch",
        "fix": change.text,
        "details": [],
    }
