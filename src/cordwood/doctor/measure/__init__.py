"""Measuring: comparing two ways fairly, and facts about the machine.

Reading order:

* ``pairs`` - runs two ways in turns; the gain and its spread
* ``stand_in_step`` - uses the cores between two batches as a training step would
* ``per_step`` - converts the gain of a trial to milliseconds of a training step
* ``determinism`` - whether a dataset returns the same sample every time
* ``train_mode`` - layers whose results depend on train mode
* ``hardware`` - whether the hardware supports bfloat16 and TF32
* ``environment`` - machine and library versions, for the report
* ``quiet_stdout`` - hides what trials print

Imports ``evidence`` and ``common``; used by ``probes.phases``, ``replay``, ``trials``, ``rules``, ``run``
and ``demo``.
"""
