"""Probes that are on in every step: they divide its time into phases (waiting, transfer, forward, backward, optimizer).

Reading order:

* ``clock`` - the current phase of the training thread, and the time spent in each
* ``step_tracker`` - where steps begin and end, and what is validation
* ``rhythm`` - buffers the events of steps that are like the ones before, to keep the cost low
* ``recorder`` - clock, tracker and rhythm together; failures of the doctor end here
* ``loaders`` - waiting for data: ``next()`` of loaders
* ``module_calls`` - replaces ``__call__`` of modules
* ``modules`` - forward passes
* ``passes`` - backward passes, optimizer steps, copies to a device
* ``saves`` - calls of ``torch.save``
* ``compiles`` - uses of ``torch.compile``

Imports ``probes``, ``probes.deep``, ``evidence``, ``measure``, ``feed`` and ``tensors``; used by ``run``.
"""
