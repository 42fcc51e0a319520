"""The acts of the demo, one file per act, and what they share. An act measures, and returns a part of the report.

Reading order:

* ``photographs`` - act 1: makes a folder of images
* ``prepare`` - the preprocessing that all acts use
* ``pack`` - act 2: packs the folder into a store
* ``ways`` - act 3: the ways to keep a tensor that are compared
* ``kept`` - act 3: writes, reads and compares samples kept in one way
* ``training`` - act 4: trains a small net, fed by files and by the Loader
* ``views`` - act 5: saves views of a large tensor
* ``doctor`` - act 6: follows the doctor's advice on a script, and compares

Imports ``report`` and the packages below ``demo``; used by ``run``.
"""
