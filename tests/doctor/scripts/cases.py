"""The patients: scripts with a planted fault, what the doctor must say of each, and how the fault is mended.

    patient = PATIENTS["denoise_spectrograms"]
    patient.line(patient.first[0])      # 28
    patient.mended(patient.first[0])    # the source with the fault taken out

A line is known by a piece of its text, so that scripts can be changed. Where the doctor may rightly choose between two
ways to tell of one fault (a loader that starves training is slow, or lacks workers), both are in the table.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEALTHY = sorted(path for path in (HERE / "healthy").glob("*.py"))


@dataclass(frozen=True)
class Answer:
    """A finding: the rule, pieces of text of the lines that it may name, and what to write instead of what."""

    rule: str
    lines: tuple[str, ...]
    mend: tuple[tuple[str, str], ...]
    information: bool = False  # it is told for information only
    if_abstains: str = ""  # right only where this rule, which would tell more, could not try anything


@dataclass(frozen=True)
class Patient:
    """A script, the answers to its fault, of which one must come first, and those to its other faults.

    Of two faults at once the one that costs more comes first, and on another machine that may be the other one.
    """

    script: str
    first: tuple[Answer, ...]
    also: tuple[Answer, ...] = ()
    needs_bfloat16: bool = False  # makes sense only on a processor that multiplies bfloat16 fast

    @property
    def path(self) -> Path:
        """Of the script."""
        return next((HERE / "patients").glob(f"*/{self.script}.py"))

    def numbers(self, answer: Answer) -> set[int]:
        """The lines that the answer may name."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return {self._only(lines, text) for text in answer.lines}

    def fits(self, finding: dict[str, Any], answer: Answer) -> bool:
        """Whether this is the finding that is expected."""
        return (
            finding["rule"] == answer.rule
            and finding["file"] == str(self.path)
            and finding["line"] in self.numbers(answer)
            and (finding["level"] == "info") is answer.information
        )

    def told(self, report: dict[str, Any]) -> tuple[Answer, dict[str, Any]] | None:
        """What a report says of the (first) fault; None unless it tells of every fault before anything else."""
        abstained = {rule["rule"] for rule in report["rules"]["abstained"]}
        faults = [self.first, *((each,) for each in self.also)]
        found: dict[int, tuple[Answer, dict[str, Any]]] = {}
        for finding in report["findings"]:
            right = [
                (number, answer)
                for number, fault in enumerate(faults)
                for answer in fault
                if self.fits(finding, answer) and (not answer.if_abstains or answer.if_abstains in abstained)
            ]
            if not right:
                return None
            for number, answer in right:
                found.setdefault(number, (answer, finding))
            if len(found) == len(faults):
                return found[0]
        return None

    def mended(self, *answers: Answer, fix: str = "") -> str:
        """The script without the fault; with the number of workers that a finding's ``fix`` names, if it names one."""
        source = self.path.read_text(encoding="utf-8")
        for answer in answers:
            told = re.search(r"num_workers=(\d+)(?:, prefetch_factor=\d+)?", fix) if answer.rule == "workers" else None
            for old, usual in answer.mend:
                new = usual if told is None else re.sub(r"num_workers=\d+", told[0], usual)
                if source.count(old) != 1:
                    raise ValueError(f"{self.script}: {old!r} is there {source.count(old)} times, not once")
                source = source.replace(old, new)
            if told is not None and told[1] == "0":  # which a DataLoader refuses together
                source = source.replace(", persistent_workers=True", "")
        return source

    def _only(self, lines: list[str], text: str) -> int:
        found = [number for number, line in enumerate(lines, 1) if text in line]
        if len(found) != 1:
            raise ValueError(f"{self.script}: {text!r} is in the lines {found}, not in one")
        return found[0]


def non_contiguous(line: str, mended: str) -> Answer:
    """Strides that cost: the line that makes the tensor, and the same line with a copy."""
    return Answer("non-contiguous", (line,), ((line, mended),))


def workers(loader: str, mended: str) -> Answer:
    """The line that makes the loader."""
    return Answer("workers", (loader,), ((loader, mended),))


def starved(lines: str | tuple[str, ...], loader: str, if_abstains: str = "") -> Answer:
    """The line of loading that takes most; without waiting is with batches that are there already."""
    lines = (lines,) if isinstance(lines, str) else lines
    return Answer("data-starved", lines, ((loader, f"list({loader})"),), if_abstains=if_abstains)


PATIENTS = {
    patient.script: patient
    for patient in (
        Patient(
            "denoise_spectrograms",
            (non_contiguous("torch.from_numpy(noise.T)", "torch.from_numpy(noise.T).contiguous()"),),
        ),
        Patient(
            "speech_encoder", (non_contiguous("features.transpose(1, 2)", "features.transpose(1, 2).contiguous()"),)
        ),
        Patient("memory_lookup", (non_contiguous("scores = scores.T", "scores = scores.T.contiguous()"),)),
        Patient(
            "distill_features",
            (non_contiguous("features.transpose(0, 3, 1, 2))", "features.transpose(0, 3, 1, 2)).contiguous()"),),
        ),
        Patient(
            "color_jitter_files",
            (
                workers(
                    "batch_size=8, shuffle=True)", "batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)"
                ),
                # Which of these takes most is the machine's affair.
                starved(
                    ("image = Image.open(", "image = image.crop("),
                    "DataLoader(Photos(args.data), batch_size=8, shuffle=True)",
                ),
            ),
        ),
        Patient(
            "one_worker",
            (
                workers("num_workers=1", "num_workers=2"),
                starved(
                    "np.abs(np.fft.rfft(",
                    "DataLoader(clips, batch_size=16, shuffle=True, num_workers=1, persistent_workers=True)",
                ),
            ),
        ),
        Patient("short_epochs", (workers("num_workers=2)", "num_workers=2, persistent_workers=True)"),)),
        Patient(
            "draw_anew",
            (
                Answer(
                    "iterator-per-batch",
                    ("next(iter(loader))",),
                    (
                        (
                            "    for step in range(args.steps):\n        inputs, labels = next(iter(loader))\n",
                            "    for step, (inputs, labels) in zip(range(args.steps), loader):\n",
                        ),
                    ),
                ),
            ),
        ),
        Patient(
            "rows_in_memory",
            (
                Answer(
                    "whole-batches",
                    ("loader = DataLoader(table",),
                    (
                        ("import DataLoader,", "import BatchSampler, DataLoader, RandomSampler,"),
                        (
                            "DataLoader(table, batch_size=500, shuffle=True, drop_last=True)",
                            "DataLoader(\n"
                            "        table,\n"
                            "        sampler=BatchSampler(RandomSampler(table), batch_size=500, drop_last=True),\n"
                            "        batch_size=None,\n"
                            "    )",
                        ),
                    ),
                ),
            ),
        ),
        Patient(
            "decode_and_resize",
            (
                Answer(
                    "cacheable-preprocessing",
                    ("loader = DataLoader(dataset",),
                    (
                        ("import numpy as np\n", "import cordwood as cw\nimport numpy as np\n"),
                        (
                            "loader = DataLoader(dataset, batch_size=8, shuffle=True)",
                            'cw.pack(dataset, "scans.cordwood", progress=False)\n'
                            '    loader = cw.Loader(cw.open("scans.cordwood"), batch_size=8, shuffle=True)',
                        ),
                    ),
                ),
                starved(
                    'small = scan.convert("RGB")',
                    "DataLoader(dataset, batch_size=8, shuffle=True)",
                    if_abstains="cacheable-preprocessing",
                ),
            ),
        ),
        Patient(
            "padded_sentences",
            (
                Answer(
                    "data-starved",
                    ("batch[row, column] = word",),
                    (
                        (
                            "        for column, word in enumerate(words):\n            batch[row, column] = word\n",
                            "        batch[row, : len(words)] = torch.tensor(words)\n",
                        ),
                    ),
                ),
                workers(
                    "shuffle=True, collate_fn=pad)",
                    "shuffle=True, collate_fn=pad, num_workers=2, persistent_workers=True)",
                ),
            ),
        ),
        Patient(
            "log_activations",
            (
                Answer(
                    "hidden-sync",
                    ("print(step, hidden[:8], file=log)",),
                    (("        print(step, hidden[:8], file=log)\n", ""),),
                ),
            ),
        ),
        Patient(
            "watch_percentiles",
            (
                Answer(
                    "hidden-sync",
                    ("= np.percentile(",),
                    (
                        (
                            "        spreads.append(spread(output))\n        if step % 20 == 0:\n",
                            "        if step % 20 == 0:\n            spreads.append(spread(output))\n",
                        ),
                    ),
                ),
            ),
        ),
        Patient(
            "collect_scores",
            (
                Answer(
                    "hidden-sync",
                    ("scores.flatten().tolist()",),
                    (("scores.flatten().tolist()", "scores.detach().flatten()"),),
                ),
            ),
        ),
        Patient(
            "soft_labels",
            (
                Answer(
                    "python-bound",
                    ("soft[row, other] = ",),
                    (
                        (
                            "    for row in range(len(labels)):\n"
                            "        for other in range(CLASSES):\n"
                            "            soft[row, other] = torch.exp(-(labels[row] - other).abs().float())\n",
                            "    soft = torch.exp(-(labels[:, None] - torch.arange(CLASSES)).abs().float())\n",
                        ),
                    ),
                ),
            ),
        ),
        Patient(
            "text_statistics",
            (
                Answer(
                    "python-bound",
                    ("counts[LETTERS.index(first)",),
                    (
                        ("import torch\nimport", "import numpy as np\nimport torch\nimport"),
                        (
                            "    counts = [0.0] * len(LETTERS) ** 2\n"
                            "    for first, second in itertools.pairwise(text):\n"
                            "        counts[LETTERS.index(first) * len(LETTERS) + LETTERS.index(second)] += 1.0\n"
                            "    return counts\n",
                            "    codes = np.frombuffer(text.encode(), np.uint8).astype(np.int64) - 97\n"
                            "    codes[codes < 0] = len(LETTERS) - 1\n"
                            "    pairs = codes[:-1] * len(LETTERS) + codes[1:]\n"
                            "    return np.bincount(pairs, minlength=len(LETTERS) ** 2).tolist()\n",
                        ),
                        ("for number in chosen])", "for number in chosen], dtype=torch.float32)"),
                    ),
                ),
            ),
        ),
        Patient(
            "loss_curve",
            (
                Answer(
                    "graph-leak", ("losses.append(loss)",), (("losses.append(loss)", "losses.append(loss.detach())"),)
                ),
            ),
        ),
        Patient(
            "average_loss", (Answer("graph-leak", ("total += loss",), (("total += loss", "total += loss.item()"),)),)
        ),
        Patient(
            "keep_embeddings",
            (
                Answer(
                    "graph-leak", ("history.append(embedded)",), (("append(embedded)", "append(embedded.detach())"),)
                ),
            ),
        ),
        Patient(
            "spare_head",
            (
                Answer(
                    "unused-parameters",
                    ("self.location = ",),
                    (("        self.location = nn.Linear(256, 500)\n", ""),),
                ),
            ),
        ),
        Patient(
            "validate_often",
            (
                Answer(
                    "eval-without-no-grad",
                    ("scores = model(inputs)",),
                    (("def validate(", "@torch.no_grad()\ndef validate("),),
                ),
            ),
        ),
        Patient(
            "validate_with_dropout",
            (
                Answer(
                    "eval-in-train-mode",
                    ("total += F.mse_loss(model(inputs), targets).item()",),
                    (
                        ("    total = 0.0\n", "    model.eval()\n    total = 0.0\n"),
                        ("    return total / len(loader)\n", "    model.train()\n    return total / len(loader)\n"),
                    ),
                ),
            ),
        ),
        Patient(
            "save_examples",
            (Answer("bloated-save", ("torch.save(",), (("output.detach()[:4]", "output.detach()[:4].clone()"),)),),
        ),
        Patient(
            "wide_layers",
            (
                Answer(
                    "precision",
                    ("loss = F.cross_entropy(",),
                    (
                        (
                            "        loss = F.cross_entropy(",
                            '        with torch.autocast("cpu", dtype=torch.bfloat16):\n'
                            "            loss = F.cross_entropy(",
                        ),
                    ),
                    information=True,
                ),
            ),
            needs_bfloat16=True,
        ),
        Patient(
            "starved_and_leaking",
            (
                workers(
                    "batch_size=8, shuffle=True)", "batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)"
                ),
                starved("turned = scan.rotate(", "DataLoader(Letters(args.data), batch_size=8, shuffle=True)"),
            ),
            also=(
                Answer(
                    "graph-leak", ("losses.append(loss)",), (("losses.append(loss)", "losses.append(loss.detach())"),)
                ),
            ),
        ),
        Patient(
            "transposed_and_looping",
            (
                non_contiguous(
                    "torch.from_numpy(surveys[step % 3].T)", "torch.from_numpy(surveys[step % 3].T).contiguous()"
                ),
            ),
            also=(
                Answer(
                    "python-bound",
                    ("weights[station] = ",),
                    (
                        (
                            "    weights = torch.zeros(STATIONS)\n"
                            "    for station in range(STATIONS):\n"
                            "        weights[station] = torch.sigmoid(quality[station]) * 2\n"
                            "    return weights\n",
                            "    return torch.sigmoid(quality) * 2\n",
                        ),
                    ),
                ),
            ),
        ),
    )
}
