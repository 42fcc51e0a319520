"""Rules about the shape of layers. The four guidelines of ShuffleNet V2 share one file: they read the same layers, and
each is a condition and a sentence.

Reading order:

* ``layers`` - layers with a real share of the time, and the shapes of their convolutions
* ``shufflenet`` - the rules ``shufflenet-g1`` to ``shufflenet-g4``

Imports ``evidence``, ``replay`` and ``common``; used by ``rules``.
"""
