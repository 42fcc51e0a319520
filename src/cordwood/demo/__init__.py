"""The main jobs on a small scale, measured on the machine in front of you, and a page that shows them.

    from pathlib import Path
    from cordwood.demo import run_demo

    run_demo(Path("cordwood-demo"), show=print)

Six acts: ``photographs.py`` makes an image folder; ``packed.py`` packs it into a store; ``ways.py`` and ``kept.py``
keep the same tensors in every way that people know, read them back, compare bit for bit and take the time;
``training.py`` trains a small net, fed by files and by the Loader; ``views.py`` saves views of a large tensor, and
writes through them after loading; ``doctored.py`` lets the doctor see a training script, follows its advice, and
compares. ``text.py`` tells each act in a terminal, ``page.py`` all of them in ``index.html``.
"""

from cordwood.demo.page import format_page
from cordwood.demo.report import Report
from cordwood.demo.run import run_demo
from cordwood.demo.text import format_report

__all__ = ["Report", "format_page", "format_report", "run_demo"]
