"""An inspection as text and as HTML: a pleasure to read, and deaf to what hostile names say."""

import pytest
import torch

import cordwood as cw
from cordwood.common.text import human
from tests.tensors.inspecting.test_inspect import saved


def test_a_table_of_all_that_matters() -> None:
    base = torch.zeros(100, 1000)
    tree = {"a": base[:10], "b": base[5:15], "t": torch.ones(3, 2).t(), "i": torch.ones(2, 3, 4, 4)}
    tree["i"] = tree["i"].to(memory_format=torch.channels_last)
    assert str(cw.inspect(saved(tree))).splitlines() == [
        "<BytesIO>: pt, state_dict, 402.5 kB, 4 tensors",
        "",
        "name  shape         dtype    in memory  reachable    wasted  note",
        "----  ------------  -------  ---------  ---------  --------  --------------",
        "a     [10, 1000]    float32   400.0 kB    40.0 kB  340.0 kB  shares with b",
        'b     [10, 1000]    float32          "    40.0 kB         "  shares with a',
        "t     [2, 3]        float32       24 B       24 B         -  not contiguous",
        "i     [2, 3, 4, 4]  float32      384 B      384 B         -  channels_last",
        "",
        "total     400.4 kB in memory, 60.4 kB reachable, 340.0 kB wasted (84.9%)",
        "checks    the checksums of all 9 records agree",
        "",
        "advice    340.0 kB of 400.4 kB is unreachable: cordwood trim FILE -o small.pt",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits_whatever_the_names_are(width: int) -> None:
    base = torch.zeros(3, 4, 5, 6, 7, 8)
    name = "module.encoder.layers.17.self_attention.output_projection.weight"
    tree = {f"{name}.{i}": base.transpose(0, 1) for i in range(3)}
    lines = cw.inspect(saved(tree)).table(width=width).splitlines()
    assert all(len(line) <= width for line in lines[1:])
    assert lines[4].startswith("modul")
    assert ".weight.0" in lines[4]


def test_a_long_list_is_shortened_in_the_middle() -> None:
    inspection = cw.inspect(saved({f"layer{i}": torch.ones(2) for i in range(180)}))
    lines = str(inspection).splitlines()
    assert "... 120 more rows (all: .tensors, or --all)" in lines
    shown = [line.split()[0] for line in lines if line.startswith("layer")]
    assert shown == [f"layer{i}" for i in (*range(40), *range(160, 180))]
    assert sum(line.startswith("layer") for line in inspection.table(max_rows=None).splitlines()) == 180
    wasteful = {f"layer{i}": torch.ones(9)[:1] for i in range(180)}
    assert "120 more rows, 120 of them with waste" in str(cw.inspect(saved(wasteful)))


def test_nothing_of_a_file_reaches_the_terminal_unfiltered() -> None:
    hostile = "\x1b[31mred\x1b]0;title\x07\r\n\u202eabc\ud800\x9b1m"
    text = str(cw.inspect(saved({hostile: torch.ones(3), hostile * 2: torch.ones(2)})))
    assert text.replace("\n", "").isprintable()
    assert r"\x1b[31mred\x1b]0;title\x07\r\n\u202eabc\ud800\x9b1m" in text
    text.encode("utf-8")


def test_nothing_of_a_file_is_markup() -> None:
    html = cw.inspect(saved({"<script>alert('x')</script>": torch.ones(3), "a&b": torch.ones(9)[:2]}))._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in html
    assert "a&amp;b" in html
    assert html.count("<tr>") == 3 + 2
    assert "28 B (58.3%)" in html


def test_a_long_table_is_shortened_in_a_notebook_too() -> None:
    html = cw.inspect(saved([torch.ones(1)] * 500))._repr_html_()
    assert html.count("<tr>") <= 202 + 2
    assert "more rows" in html


def test_sizes_as_people_read_them() -> None:
    sizes = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 198_600_000: "198.6 MB"}
    assert {size: human(size) for size in sizes} == sizes
    assert human(10**30).endswith(" EB")


def test_a_note_that_does_not_fit_says_what_matters_most() -> None:
    weight = torch.ones(6, 5).t()
    names = [f"network.recurrent.layer{i}.weight_of_the_gate" for i in range(4)]
    lines = str(cw.inspect(saved(dict.fromkeys(names, weight)))).splitlines()
    assert lines[4].endswith("  shares with ne...gate +2")
