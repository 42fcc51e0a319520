"""The main jobs on a small scale: views of a large tensor, an image folder, and every way to keep them.

    from pathlib import Path
    from cordwood.demo import format_report, run_demo

    print(format_report(run_demo(Path("cordwood-demo"))))

First, small views of a large tensor are saved in every way of ``views.py``, and written through after loading. Then
photographs become a folder of JPEG files, these become normalised float32 tensors, and every way in ``ways.py`` writes
these tensors, reads them back, compares them bit for bit and is timed. ``packed.py`` packs the folder into a store, and
reads batches of a random order; ``training.py`` trains a small net, fed by files and by the Loader. At last
``doctored.py`` lets the doctor see a training script, follows its advice, and compares.
"""

from cordwood.demo.report import BatchRow, Doctored, Report, Row, Training, TrainingRow, ViewRow, format_report
from cordwood.demo.run import run_demo

__all__ = ["BatchRow", "Doctored", "Report", "Row", "Training", "TrainingRow", "ViewRow", "format_report", "run_demo"]
