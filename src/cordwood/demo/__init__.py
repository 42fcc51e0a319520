"""The main job on a small scale: an image folder, and every way to keep the tensors made from it.

    from pathlib import Path
    from cordwood.demo import format_report, run_demo

    print(format_report(run_demo(Path("cordwood-demo"))))

Photographs become a folder of JPEG files, these become normalised float32 tensors, and every way in ``ways.py`` writes
these tensors, reads them back, compares them bit for bit and is timed.
"""

from cordwood.demo.report import Report, Row, format_report
from cordwood.demo.run import run_demo

__all__ = ["Report", "Row", "format_report", "run_demo"]
