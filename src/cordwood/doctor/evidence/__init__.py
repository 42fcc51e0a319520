"""What probes have recorded, as plain data for rules to read, and the findings that rules return.

Reading order:

* ``findings`` - a place in the user's code, a finding, and the base class of rules
* ``evidence`` - everything that was recorded in a run; a missing signal is None, with the reason
* ``places`` - which lines and files are the user's own
* ``tape`` - the operations of one step, with shapes and strides
* ``stacks`` - sampled Python stacks, added up by function and line
* ``fetch_stages`` - whether a function reads, decodes or transforms
* ``fetch_figures`` - what one process recorded about its fetches, as a file
* ``fetches`` - the figures of all processes together
* ``storage_device`` - the kind of disk that holds a file

Imports ``sources`` and ``common``; used by every other part of ``doctor`` but ``timer``, and by ``demo``.
"""
