"""Runs recorded operations again, to measure what a change of them would save.

Reading order:

* ``leaves`` - recreates the tensors that a recorded step starts from
* ``replay`` - runs the tape of a step as it was, or with other layouts
* ``layouts`` - tensors whose memory order differs from their axes
* ``layout_trial`` - replays the step with these tensors contiguous or channels last
* ``op_work`` - the time of an operation without the cost of the call
* ``loop_rounds`` - whether the rounds of a Python loop could be one operation
* ``model`` - runs a copy of a module in another precision

Imports ``evidence``, ``code``, ``measure`` and ``common``; used by ``rules`` and ``report``.
"""
