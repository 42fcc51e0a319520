"""Results as a prompt and a notebook show them."""

import re
from dataclasses import dataclass

from cordwood.common.html import Printed


@dataclass(frozen=True, slots=True, repr=False)
class Result(Printed):
    text: str

    def __str__(self) -> str:
        return f"found: {self.text}"


def test_a_result_is_shown_as_it_is_printed() -> None:
    result = Result("a < b\x1b\nc")
    assert repr(result) == str(result) == "found: a < b\x1b\nc"
    shown = result._repr_html_()
    assert re.fullmatch(r'<pre style="[^"]+">found: a &lt; b\\x1b\nc</pre>', shown)
    assert "font-family:ui-monospace,monospace" in shown
    assert not hasattr(result, "__dict__")
