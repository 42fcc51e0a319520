"""The doctor: where the time of training goes, what to change, and a measurement of what the change saves.

    with cw.diagnose() as d:
        train()
    print(d.report)

How a diagnosis runs:

1. ``run``: a script, or a block of code -> the same code with probes attached. It runs unchanged, and its results are
   the same bit for bit.
2. ``probes``: the running code -> ``evidence``. ``probes.phases`` time every step, ``probes.deep`` watch a few,
   ``probes.fetch`` watch data loaders and their workers.
3. ``rules.judging``: the evidence -> findings, after the probes are removed. Each rule reads the evidence, names the
   line (``code``), and measures what a change saves: it runs recorded operations again (``replay``) or tries another
   loader (``trials``), with the tools in ``measure``.
4. ``report``: findings and evidence -> one JSON document -> terminal, HTML, comparison of two runs. ``wording`` formats
   figures for all of them.

``timer`` is ``cw.Timer``, a stopwatch that waits for the accelerator; it needs nothing of the rest. Imports ``feed``,
``packing``, ``store``, ``sources``, ``tensors`` and ``common``; used by ``demo`` and ``cli``.

Where to add things:

* A rule: ``rules/<kind>/<name>.py`` with a subclass of ``Rule`` (``evidence/findings.py``); its class in ``ALL_RULES``
  of ``rules/__init__.py``; ``python -m cordwood.doctor.rules.pages docs/rules`` makes its page, which mkdocs.yml must
  list. Tests in tests/doctor/rules/<kind>/test_<name>.py, a script with the fault in
  tests/doctor/scripts/patients/<kind> (listed in tests/doctor/scripts/cases.py), a healthy one that looks alike in
  tests/doctor/scripts/healthy.
* A signal that no probe records yet: a field of ``Evidence``, and a ``DeepProbe`` in ``probes/deep`` listed in
  ``all_deep.py``.
"""

from typing import TYPE_CHECKING

from cordwood.common.lazy import lazy_names

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import PHASES as PHASES
    from cordwood.doctor.measure.environment import describe_environment as describe_environment
    from cordwood.doctor.report.charts import legend as legend
    from cordwood.doctor.report.charts import swatch as swatch
    from cordwood.doctor.report.comparison import Comparison as Comparison
    from cordwood.doctor.report.comparison import compare as compare
    from cordwood.doctor.report.report import Report as Report
    from cordwood.doctor.report.style import PHASE_COLOURS as PHASE_COLOURS
    from cordwood.doctor.report.style import REPORT_STYLE as REPORT_STYLE
    from cordwood.doctor.report.terminal import format_text as format_text
    from cordwood.doctor.run.script import DoctorOptions as DoctorOptions
    from cordwood.doctor.run.script import run_script as run_script
    from cordwood.doctor.run.session import diagnose as diagnose
    from cordwood.doctor.timer import Timer as Timer
    from cordwood.doctor.wording import PHASE_NAMES as PHASE_NAMES
    from cordwood.doctor.wording import gain as gain
    from cordwood.doctor.wording import place_of as place_of
else:
    # A timer and the words of a report need no torch, which the session imports.
    __getattr__ = lazy_names(
        __name__,
        {
            "Comparison": "report.comparison",
            "DoctorOptions": "run.script",
            "PHASES": "evidence.evidence",
            "PHASE_COLOURS": "report.style",
            "PHASE_NAMES": "wording",
            "REPORT_STYLE": "report.style",
            "Report": "report.report",
            "Timer": "timer",
            "compare": "report.comparison",
            "describe_environment": "measure.environment",
            "diagnose": "run.session",
            "format_text": "report.terminal",
            "gain": "wording",
            "legend": "report.charts",
            "place_of": "wording",
            "run_script": "run.script",
            "swatch": "report.charts",
        },
    )
