"""Probes that slow a step down, and therefore watch only a few steps.

Reading order:

* ``base`` - the base class of a deep probe
* ``all_deep`` - the list of them, in the order in which they begin
* ``stack_sampler`` - samples the stack of the training thread
* ``syncs`` - times calls that take values out of a tensor
* ``memory`` - tensors that stay alive with their graph
* ``parameters`` - parameters without gradients
* ``tape`` - records all operations of two steps
* ``dispatch_mode`` - the dispatch mode that records them
* ``tensor_numbers`` - identifies tensors by their memory
* ``module_paths`` - the module that is running

Imports ``probes``, ``probes.fetch``, ``evidence`` and ``code``; used by ``probes.phases`` and ``run``.
"""
