"""Rules about the step itself, one per file.

Reading order:

* ``non_contiguous`` - tensors whose memory order costs time
* ``hidden_sync`` - lines that take values out of tensors in every step
* ``python_bound`` - steps that spend their time in Python
* ``precision`` - float32 where the hardware has something faster
* ``cudnn_benchmark`` - cuDNN does not search for its fastest algorithm

Imports ``evidence``, ``code``, ``measure``, ``replay``, ``wording`` and ``common``; used by ``rules``.
"""
