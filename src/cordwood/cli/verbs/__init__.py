"""The verbs of the command, one file each: parse the arguments, call the library, print the result.

In the order of ``cordwood --help``:

* ``bench`` - runs a benchmark of the checkout
* ``completion`` - prints a completion script for a shell
* ``demo`` - runs the demo
* ``doctor`` - runs a training script under the doctor
* ``doctor_compare`` - ``cordwood doctor compare``; a file of its own, because it has a parser of its own
* ``export`` - writes one file per sample of a store
* ``inspect`` - shows what tensor files and stores hold
* ``merge`` - joins stores
* ``pack`` - packs a source into a store
* ``trim`` - rewrites checkpoints without wasted bytes
* ``verify`` - checks a store, and salvages a damaged one

A verb imports the library inside ``run``, so that ``cordwood --help`` does not import torch. Imports ``completing``,
``output``, ``report_files``, ``tensor_files`` and the packages below ``cli``; used by ``cordwood.cli``. The docstring
of ``cordwood.cli`` says what a new verb needs.
"""
