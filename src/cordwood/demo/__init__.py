"""The main features on a small scale, measured on this machine, and a page that shows the results.

    from pathlib import Path
    from cordwood.demo import run_demo

    run_demo(Path("cordwood-demo"), show=print)

How the demo runs (``run``; each act returns a part of ``report``):

1. ``acts.photographs``: photographs of installed packages -> a folder of JPEG files.
2. ``acts.pack``: the folder -> a store, by ``cw.pack``.
3. ``acts.ways`` and ``acts.kept``: the images -> the same tensors kept in every usual way, read back, compared bit for
   bit and timed.
4. ``acts.training``: files and store -> a small net trained from both, with the time that steps wait.
5. ``acts.views``: views of a large tensor -> files of ``torch.save`` and ``cw.save``, compared.
6. ``acts.doctor``: the script ``starved`` -> the doctor's advice, followed, and the report before and after.
7. ``terminal`` prints each act when it is over; ``page`` makes ``index.html`` of all of them.

Imports the packages below it; used by ``cli``.

Where to add things:

* A way to keep tensors: a ``Way`` in ``acts/ways.py``.
* An act: ``acts/<name>.py``, its result in ``report.py``, a function in ``terminal/text.py``, a section in
  ``page/sections.py``, and the calls in ``run.py`` and ``page/page.py``. Tests are in tests/demo.
"""

from cordwood.demo.page.page import format_page
from cordwood.demo.report import DemoReport
from cordwood.demo.run import run_demo
from cordwood.demo.terminal.text import format_report

__all__ = ["DemoReport", "format_page", "format_report", "run_demo"]
