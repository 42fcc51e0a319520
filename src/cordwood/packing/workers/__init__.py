"""The processes that read, transform and encode inputs.

Reading order:

* ``tasks`` - cuts the inputs into tasks of a sensible size
* ``spread`` - units of inputs that are spread over a source
* ``engine`` - the loop of a job: tasks to workers, results in order to the output
* ``pool`` - starts worker processes, and replaces those that die
* ``wire`` - messages through a pipe, large buffers without a copy
* ``worker`` - the main function of a worker process
* ``work`` - what is done with one task: read, transform, prepare, encode
* ``one_thread`` - limits torch and OpenCV to one thread, so that results do not depend on the number of workers
* ``interrupt`` - Ctrl-C stops the job where it can resume

Imports ``transform``, ``journal``, ``sources``, ``store`` and ``common``; used by ``output``, ``report``,
``update``, ``dry_run``, ``pack_run`` and ``doctor``.
"""
