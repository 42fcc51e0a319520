"""Runs a script, or a block of code, under the doctor.

Reading order:

* ``session`` - ``cw.diagnose``: attaches the probes, removes them, runs the rules, builds the report
* ``script`` - ``cordwood doctor train.py``: runs the script unchanged in this process
* ``child_processes`` - follows training into processes that the script starts
* ``own_cost`` - measures what the doctor's timers cost
* ``temp_folder`` - the folder in which worker processes leave their figures

Imports ``probes``, ``evidence``, ``measure``, ``rules``, ``report`` and ``common``; used by ``cli``.
"""
