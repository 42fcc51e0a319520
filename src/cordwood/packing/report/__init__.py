"""What a job shows to people: progress while it runs, a summary or an estimate at the end.

Reading order:

* ``rate`` - the state of a job, its speed, and both as a line of text
* ``progress`` - a bar on a terminal or in a notebook, plain lines elsewhere
* ``startup_cost`` - the time that starting the workers takes, and when fewer workers would be faster
* ``lacking`` - which fields some samples lack, and how many do
* ``summary`` - the result of ``cw.pack``
* ``estimate`` - the result of a dry run

Imports ``workers``, ``store`` and ``common``; used by ``update``, ``dry_run``, ``pack_run``, ``run``, ``demo`` and
``cli``.
"""
