"""Reports of demos that nobody ran: every figure is made up, and known."""

import io
from pathlib import Path

from PIL import Image

from cordwood.demo.report import (
    Artifact,
    BatchRow,
    Compared,
    DemoReport,
    Doctored,
    Packing,
    Photograph,
    PhotographFolder,
    SampleRow,
    Step,
    Training,
    TrainingRow,
    ViewRow,
    Views,
)
from cordwood.packing.report.summary import Packed

FOLDER = Path("x y/demo")


def picture(colour: str) -> bytes:
    """A JPEG file."""
    file = io.BytesIO()
    Image.new("RGB", (160, 160), colour).save(file, "JPEG")
    return file.getvalue()


def make_doctored(*, closed: bool = True) -> Doctored:
    """A script that is four times as fast after the advice; or no advice."""
    phases = {"wait": 80.0, "forward": 9.0, "backward": 8.0, "optimizer": 3.0}
    asked = (FOLDER / "doctor", "cordwood doctor train.py", "80% of each step is waiting for data: 80 ms of 100 ms")
    if not closed:
        return Doctored(*asked, phases, "cacheable-preprocessing abstained: there is no time for a trial")
    return Doctored(
        *asked,
        phases,
        "cacheable-preprocessing at train.py:9 saves 75 ± 2 ms/step (75%), verified by trial",
        "cordwood pack train:Images train.cordwood",
        "in train.py, in place of lines 9-10",
        ["loader = DataLoader(", "    data)"],
        ["import cordwood as cw", 'loader = cw.Loader(cw.open("train.cordwood"))'],
        "cordwood doctor train.py again",
        "nothing worth changing",
        {"wait": 5.0, "forward": 9.0, "backward": 8.0, "optimizer": 3.0},
        "cordwood doctor compare",
        ["faster: 100 ms -> 25 ms a step", "predicted 75 ms/step, got 75: within 1%"],
        100.0,
        25.0,
        True,
        True,
    )


def make_report(*, closed: bool = True, classes: tuple[str, ...] = ("coffee", "rocket")) -> DemoReport:
    """All acts, in a few rows each."""
    packed = Packed(
        str(FOLDER / "s.cordwood"),
        40,
        40,
        0,
        0,
        4_000,
        160_000,
        16_000,
        1,
        2.0,
        torch_save_bytes=170_000,
        starting_seconds=1.2,
    )
    command = "cordwood pack 'x y/demo/images' s.cordwood --transform image=prep:prepare --goal fast"
    colours = ("teal", "orange", "navy")
    photographs = [Photograph(name, picture(colours[number % 3])) for number, name in enumerate(classes)]
    slow = [Step(0.010, 0.030, 2.0 - 0.05 * number) for number in range(30)]
    fast = [Step(0.001, 0.019, 2.0 - 0.05 * number) for number in range(30)]
    return DemoReport(
        FOLDER,
        PhotographFolder(FOLDER / "images", 40, 4_000, photographs),
        Packing(command, packed),
        Compared(
            [
                SampleRow("slices", 16_000, 0.005, True),
                SampleRow("plain", 1_000, 0.0025, True),
                SampleRow("a much longer way", 62.5, 0.01234, False, note="a | b"),
                SampleRow("a store", 100, 0.001, True, is_ours=True),
            ],
            [BatchRow("files", None, 0.5, 64, True), BatchRow("a store", 0.0025, 0.016, 64, False, is_ours=True)],
            "plain",
            40,
            (3, 8, 8),
        ),
        Training(
            [
                TrainingRow("files", 960, slow, True),
                TrainingRow("tensors", 960, slow, True),
                TrainingRow("the Loader", 960, fast, False, note="2 threads", is_ours=True),
            ],
            10,
            32,
            1,
            packed_seconds=2.0,
        ),
        Views(
            [
                ViewRow("torch.save", 4_001_661, 4_001_732, True, True),
                ViewRow("ours", 846, 891, True, False, is_ours=True),
                ViewRow("trimmed", 846, 7_090, True, True, is_ours=True, was_trimmed=True),
            ],
            1_000,
            500,
            1_000_000,
        ),
        make_doctored(closed=closed),
        [Artifact(FOLDER / "index.html", "a page"), Artifact(FOLDER / "images", "the images")],
        {"processor": "a fast one", "cores": 2, "system": "Linux", "python": "3.12.1", "torch": "2.9"},
        87.4,
        41_000_000,
    )
