"""The main jobs on a small scale, measured on the machine in front of you, and a page that shows them.

    from pathlib import Path
    from cordwood.demo import run_demo

    run_demo(Path("cordwood-demo"), show=print)

Six acts: ``acts/photographs.py`` makes an image folder; ``acts/pack.py`` packs it into a store; ``acts/ways.py`` and
``acts/kept.py`` keep the same tensors in every way that people know, read them back, compare bit for bit and take the
time; ``acts/training.py`` trains a small net, fed by files and by the Loader; ``acts/views.py`` saves views of a large
tensor, and writes through them after loading; ``acts/doctor.py`` lets the doctor see a training script, follows its
advice, and compares. ``terminal/text.py`` tells each act in a terminal, ``page/page.py`` all of them in ``index.html``.
"""

from cordwood.demo.page.page import format_page
from cordwood.demo.report import DemoReport
from cordwood.demo.run import run_demo
from cordwood.demo.terminal.text import format_report

__all__ = ["DemoReport", "format_page", "format_report", "run_demo"]
