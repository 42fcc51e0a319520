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
  list. Tests in tests/doctor/rules/<kind>/test_<name>.py, a script with the fault in tests/doctor/patients (listed in
  tests/doctor/cases.py), a healthy one that looks alike in tests/doctor/healthy.
* A signal that no probe records yet: a field of ``Evidence``, and a ``DeepProbe`` in ``probes/deep`` listed in
  ``all_deep.py``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cordwood.doctor.report.report import Report as Report
    from cordwood.doctor.run.session import diagnose as diagnose
    from cordwood.doctor.timer import Timer as Timer

_HOME = {"Report": "report.report", "Timer": "timer", "diagnose": "run.session"}

__all__ = ["Report", "Timer", "diagnose"]


def __getattr__(name: str) -> object:
    # A timer needs no torch, which the session imports.
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
