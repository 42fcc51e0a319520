"""The files of a packing job, from which a killed job resumes. docs/format/packing.md describes them.

Reading order:

* ``part`` - the range of inputs of part k of n
* ``job_file`` - ``pack.json``: source, transform and options; refuses to resume a different job
* ``inputs`` - ``inputs/<shard>.jsonl``: the inputs that the samples of a shard came from
* ``shard_log`` - the log of the shard that is being written
* ``first_samples_log`` - the log of the first samples, until the schema is fixed
* ``failure`` - why one input failed, in a form that travels between processes
* ``failure_policy`` - stop, skip or retry, and the list of failed inputs

Imports ``transform``, ``sources``, ``store``, ``common`` and ``native``; used by ``workers``, ``output``, ``update``,
``transfer``, ``dry_run``, ``pack_run`` and ``run``.
"""
