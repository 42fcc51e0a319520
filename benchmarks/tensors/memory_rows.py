"""Memory that saving and trimming take beyond the object itself."""

from pathlib import Path

from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Spread
from benchmarks.tensors.memory import Job, make, watch

TITLE = "Memory while saving and trimming"
KEYS = ("memory",)
ALLOWED = 1.1  # of the largest storage
SLOW = 8  # what takes long gets so much less to do
SHAPES = {
    "one": "one storage",
    "eight": "eight storages",
    "strided": "every other column of a matrix",
    "crossing": "two views that cross",
}
ALL = tuple(SHAPES)
# what, how it is done, with which objects; whether a copy of everything reachable is allowed on top
WAYS = (
    ("save to .pt", Job("save", "", suffix=".pt"), ALL, False),
    ("save to .pt, compress=True", Job("save", "", suffix=".pt", options={"compress": True}), ("one", "eight"), False),
    ("save to .cord, fast", Job("save", "", suffix=".cord", options={"goal": "fast"}), ("one", "eight"), False),
    ("save to .cord, balanced", Job("save", "", suffix=".cord"), ALL, False),
    ("save to .cord, small", Job("save", "", suffix=".cord", options={"goal": "small"}), ("one", "eight"), False),
    ("save to .pt.zip", Job("save", "", suffix=".pt.zip"), ("one",), False),
    ("save to .pt in the background", Job("save", "", options={"background": True}), ("one", "strided"), True),
    ("save to .cord in the background", Job("save", "", suffix=".cord", options={"background": True}), ("one",), True),
    ("torch.save with cw.pickle_module", Job("pickle", ""), ("one", "eight", "strided"), True),
    ("trim to .pt", Job("trim", ""), ("one", "eight", "strided"), False),
    ("trim to .cord", Job("trim", "", suffix=".cord"), ("one", "eight"), False),
)
TAKES_LONG = ("small", "compress", ".zip")


def measure(settings: Settings) -> Outcome:
    """One table; the goal is judged by its worst row."""
    table = Table(
        "Memory beyond the object itself, while saving and trimming",
        [("what", "text"), ("object", "text"), ("reached", "bytes"), ("largest storage", "bytes"), ("allowed", "bytes"),
         ("held", "bytes"), ("of allowed", "ratio"), ("and files' pages", "bytes")],
    )  # fmt: skip
    shares = []
    with scratch(settings) as folder:
        for what, pattern, shapes, with_copy in WAYS:
            nbytes = settings.memory_bytes // (SLOW if any(word in what for word in TAKES_LONG) else 1)
            for shape in shapes:
                job = completed(pattern, folder, shape, nbytes)
                growth = watch(job)
                allowed = ALLOWED * job.largest + (nbytes if with_copy else 0)
                # A trim maps the file that it reads; no other way maps anything.
                held = growth.own if job.action == "trim" else growth.peak
                shares.append(held / allowed)
                beside = growth.peak - growth.own if job.action == "trim" else None
                table.add(what, SHAPES[shape], nbytes, job.largest, allowed, held, shares[-1], beside)
    table.notes += [
        f"Allowed is {ALLOWED:g}x the object's largest storage; in the background, and with the pickle module, a copy "
        "of all that is reached as well.",
        "A trim maps the file that it reads. The pages of it that are in memory are in the last column: the system "
        "takes them back when it needs them.",
    ]
    return Outcome([table], {"memory": Spread.exact(max(shares))})


def completed(pattern: Job, folder: Path, shape: str, nbytes: int) -> Job:
    """The job with its object; a trim gets a file of it."""
    source = ""
    if pattern.action == "trim":
        source = str(folder / "source.pt")
        need("torch").save(make(shape, nbytes), source)
    return Job(pattern.action, str(folder), nbytes, shape, pattern.suffix, pattern.options, source)
