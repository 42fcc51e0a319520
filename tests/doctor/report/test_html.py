"""The HTML report: everything is in it, everything from outside is escaped, and it asks for nothing."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from cordwood.doctor.evidence.evidence import PHASES, Evidence
from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding
from cordwood.doctor.report.charts import class_behind, waterfall
from cordwood.doctor.report.html import format_html
from cordwood.doctor.report.report import Report
from cordwood.doctor.report.style import PHASE_COLOURS, REPORT_STYLE
from cordwood.doctor.wording import PHASE_NAMES
from tests.doctor.support.evidences import make_evidence, make_report

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&\x1b[2J"


class Checked(HTMLParser):
    """Elements in their order, with what is open checked: a broken page would not balance."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def full_report() -> Report:
    detail = Detail("functions", ("name", "ms"), (("decode", "20.5"), ("resize", "3")))
    place = CodeLine("/home/me/train.py", 31, "train", "x = y.item()")
    fix = "if step % 100 == 0:\n    x = y.item()"
    report = make_report(
        [
            Finding("hidden-sync", "`y.item()` waits", fix, place, 20.0, 1.0, "measured"),
            Finding("graph-leak", "m", "f", level="medium", details=(detail,)),
        ],
        make_evidence(first_waits=(90.0, 50.0, 50.0)),
        passed={"workers": ""},
        abstained={"transfer": "no accelerator in use"},
        failed={"precision": "ZeroDivisionError"},
    )
    report.document["layers"] = [
        {"module": name, "class": "Mish", "ops": 12, "ms": 20.0, "share": 0.4, "optimizer_ms": 0.0, "other_ms": 0.0}
        | {"forward_ms": 8.0, "backward_ms": 12.0}
        for name in ("encoder.0", "encoder.1")
    ]
    report.document["functions"]["loading"] = [{"name": "decode", "file": "/home/me/d.py", "line": 3, "own_ms": 2.0}]
    return report


def test_everything_is_in_it() -> None:
    page = format_html(full_report().document)
    text = " ".join(Checked(page).text)
    for told in (
        "30% of each step can be saved",
        "Saves up to 20.0 ± 1.0 ms/step (30%), measured",
        "/home/me/train.py:31 in train",
        "if step % 100 == 0:\n    x = y.item()",
        "Steps, one after the other",
        "A typical step",
        "encoder.1",
        "How long a step waits",
        "The first batch of each epoch",
        "Layers by time",
        "Functions with most own time, loading data",
        "no accelerator in use",
        "ZeroDivisionError",
        "timing the phases takes",
        "2.13.0",
    ):
        assert told in text
    assert "<code>y.item()</code> waits" in page


@pytest.mark.parametrize(
    "evidence", [Evidence(), make_evidence(steps=0), make_evidence(steps=1), make_evidence(steps=3000)]
)
def test_runs_of_any_length_make_a_page(evidence: Evidence) -> None:
    page = format_html(make_report(evidence=evidence).document)
    Checked(page)
    assert len(page) < 1_000_000
    assert not re.search(r"\b(?:nan|inf)\b", page)


def test_without_a_loader_there_are_no_waits_to_show() -> None:
    alone = make_report(evidence=make_evidence(forward=20.0))
    assert "Waiting for data</h2>" not in format_html(alone.document)
    fed = make_report(evidence=make_evidence(wait=1.0, forward=20.0))
    assert "Waiting for data</h2>" in format_html(fed.document)


def test_what_comes_from_outside_is_text() -> None:
    detail = Detail(EVIL, (EVIL, EVIL), ((EVIL, EVIL),))
    place = CodeLine(EVIL, 3, EVIL, EVIL)
    report = make_report(
        [Finding(EVIL, EVIL, EVIL, place, 30.0, verified=EVIL, details=(detail,))],
        passed={EVIL: EVIL},
        abstained={EVIL: EVIL},
        failed={EVIL: EVIL},
    )
    document = report.document | dict.fromkeys(("script", "folder", "verdict", "cordwood"), EVIL)
    document["notes"], document["missing"], document["environment"] = [EVIL], {EVIL: EVIL}, {EVIL: [EVIL]}
    document["layers"] = [{**layer, "module": EVIL, "class": EVIL} for layer in full_report().document["layers"]]
    document["functions"]["training"] = [{"name": EVIL, "file": EVIL, "line": 3, "own_ms": 2.0}]
    page = format_html(document)
    checked = Checked(page)
    assert not {"script", "img", "iframe", "link", "object"} & set(checked.tags)
    assert not [name for name, _ in checked.attributes if name.startswith("on")]
    assert "\x1b" not in page
    assert "alert(1)" in " ".join(checked.text)


def layer(name: str, kind: str, **phases: float) -> dict[str, Any]:
    return {"module": name, "class": kind, **phases}


def test_layers_are_no_longer_than_their_phase() -> None:
    typical = dict.fromkeys(("wait", "transfer", "forward", "backward", "other"), 0.0) | {"optimizer": 17.2}
    layers = [layer("(optimizer)", "", optimizer_ms=20.9), layer("0.4", "Linear", optimizer_ms=20.9)]
    text = " ".join(Checked(waterfall(typical, layers)).text)
    assert "20.9" not in text
    assert text.count("8.60 ms") == 4  # in the picture and beside it
    shorter = " ".join(Checked(waterfall(typical, [layer("0", "Linear", optimizer_ms=3.0)] * 2)).text)
    assert "3.00 ms" in shorter


def test_a_layer_goes_by_its_path_and_its_class() -> None:
    named = [("0.4", "Linear"), ("Net", "Net"), ("Net#2", "Net"), ("(optimizer)", "")]
    assert [class_behind(layer(*each)) for each in named] == [" Linear", "", "", ""]
    assert class_behind({"module": "0.4"}) == ""  # of an earlier version's report
    page = " ".join(Checked(format_html(full_report().document)).text)
    assert "encoder.1  Mish" in page  # the table
    assert "encoder.1 Mish" in page  # the picture


def test_it_asks_for_nothing() -> None:
    page = format_html(full_report().document)
    checked = Checked(page)
    assert not {"src", "href", "action", "data"} & {name for name, _ in checked.attributes}
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_pictures_say_what_they_show() -> None:
    page = format_html(full_report().document)
    assert all(re.search(r'role="img" aria-label="[^"]+"', svg) for svg in re.findall(r"<svg[^>]*>", page))
    assert "<svg" in page


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_can_be_read_by_day_and_by_night(scheme: int) -> None:
    root = re.findall(r":root \{(.*?)\}", REPORT_STYLE, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", root))
    for text in ("text", "quiet", "good", "bad", "warn"):
        for ground in ("page", "card", "code"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_badges_can_be_read() -> None:
    badges = re.findall(r"\.badge\.\w+ \{ background: (#\w{6}); color: (#\w{3,6});", REPORT_STYLE)
    assert len(badges) == 7
    for ground, text in badges:
        assert contrast(ground, text if len(text) == 7 else "#ffffff") >= 4.5


def test_every_phase_has_a_name_and_a_colour() -> None:
    assert tuple(PHASE_COLOURS) == tuple(PHASE_NAMES) == PHASES
