"""What each chapter of the page is called, and how its figures were measured."""

TITLES = {
    "codecs": "Codecs",
    "tensors": "Tensor files",
    "store": "Stores",
    "feed": "The Loader",
    "pack": "Packing",
    "plans": "Codec plans",
    "doctor": "The doctor",
    "scaling": "How cost grows",
}  # in the order of the page

IN_TURNS = """\
* **Ratios, taken in turns.** Contenders run A B C A B C ...; a ratio is taken inside each round, and the median over
  the rounds is what counts. Figures in brackets are the lower and upper quartile. A turn repeats its pass over the data
  until it is long against the clock."""

VERDICTS = """\
* **Verdicts** are by the median: *met aim*, *met must*, or *missed*."""

METHODS = {
    "codecs": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, every decoder's result is compared with the source bit for bit.
* **Page faults.** Photographs are decoded into memory that was written before, wherever the contender's API lets it be
  given; the reading of .pt files and ZipNN allocate for themselves. Against ZipNN both sides allocate; our figure for
  memory used before stands beside it.
* **Caches.** A pass goes over all photographs, each into an output of its own, never over one again and again: in a
  full run 39 MB of floats are written between two visits to the same memory.
* **Turbo.** One thread may find its core clocked higher than two do. So the table of two threads shows what two
  independent threads of plain arithmetic gain in the same rounds: that is the machine's own ceiling.
* **Threads.** All decoding is with one thread unless a row says two; OpenCV and torch are told the same number.
* **Rivals at their best.** WebP and PNG are read by the faster of OpenCV and Pillow, and what follows is the fastest
  bit-exact conversion found on this machine. Everything is in memory: no contender touches a disk.
{VERDICTS}""",
    "tensors": f"""\
{IN_TURNS}
* **Equality first.** Every file of every contender is loaded and compared with what was saved, bit for bit, before
  anything is timed; a `.pt` of ours by plain torch.load.
* **The disk.** All contenders write to one disk. Before every pass that writes, and off the clock, what the pass before
  it wrote is removed (unless the row says that it is written over) and the system is told to write everything back, so
  that nobody pays for what another left in the cache. Saving does not sync inside the time; a trim does.
* **Warm and cold.** Files are read from the page cache unless a row says cold. Then they are synced and dropped from
  the cache before every pass; their names stay in the kernel's memory. How much was read from the disk is counted.
* **Letting go.** What was loaded is given back after the clock has stopped.
* **Looking at every byte** is one pass of NumPy's exclusive or over each tensor, the same for every contender.
* **Memory** is that of a process that does nothing else: the object is made, a small one is saved in the same way, the
  peak is reset, and what the process then holds at most beyond what it held before is what counts.
* **Threads.** Everybody uses as many as by default.
{VERDICTS}""",
    "store": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, a whole pass of every reader is compared with the source: bit for bit,
  but for FFCV, which normalises with another rounding (at most a millionth is let pass). Every sample must come.
* **A turn** is a pass over all samples in random order, batch after batch, from the page cache; batches are let go one
  after the other, as in a training loop. For FFCV, which has much to do at the beginning of one, a pass is longer.
* **Rivals at their best.** All ways of a rival's row are timed, and in each round the fastest counts: with and without
  worker processes, and FFCV with its own normalisation, which writes into memory used again and again.
* **Two cores.** Two threads or two worker processes for everybody. Workers are started once and kept.
* **Packing** is from samples in memory to an empty folder. Before every pass, off the clock, the disk is told to write
  everything back.
* **Memory** is that of a process that does nothing else, as it tells itself.
{VERDICTS}""",
    "feed": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, an epoch of every loader is compared with the source: bit for bit, but
  for FFCV, which normalises with another rounding (at most a millionth is let pass). Every sample must come.
* **A turn** is an epoch in random order, batch after batch; batches are let go one after the other, as in a training
  loop. Where photographs come from the page cache, an epoch of ours and of FFCV's is 4,096 samples long, so that what
  is done to begin one is little against it.
* **Rivals at their best.** All ways of a rival's row are timed, and in each round the fastest counts: with and without
  worker processes, more and fewer batches ahead.
* **CPU time** is that of the whole process with all its threads, and of its worker processes, divided by the samples.
  The figure for one core is its inverse: what a loader could give if it alone had one core.
* **Two cores.** Two worker processes or threads for the rivals; ours chooses for itself. Workers are started once and
  kept.
* **Memory, and the first batch**, are of a process that does nothing else, as it tells itself.
{VERDICTS}""",
    "pack": f"""\
{IN_TURNS}
* **Equality first.** Everybody's samples are compared with what the transform gives, bit for bit, before anything is
  timed: of the long runs every fiftieth, of the decoders and the story's files more. Every sample must be there.
* **A turn** of packing is from the call to its end, into an empty folder. Before it, off the clock, what the one before
  wrote is removed, and the disk is told to write everything back.
* **Two cores.** Two worker processes, each with one thread of torch and OpenCV, for everybody.
* **Memory** is that of the process and of all its workers, looked at from outside fifty times a second.
{VERDICTS}""",
    "plans": f"""\
{IN_TURNS}
* **Bytes** are those of all files of a store, and the same on every machine. Samples come from fixed seeds, and from
  photographs that packages ship.
* **Equality first.** Some samples of every store are compared with their source, bit for bit.
* **One thread** for everybody where a row says so.
* **The version before** is, for bytes, a constant that was measured once; for speeds, a build of the git revision that
  `--against` names, in a process of its own, in turns with a process of this version.
{VERDICTS}""",
    "doctor": f"""\
{IN_TURNS}
* **Cost.** One network is trained in one process, an epoch with the doctor and one without, in turns, and who begins
  changes from round to round. Attaching and detaching are off the clock.
* **Planted faults** are scripts as people write them, with one fault each, or two. A round runs the script under the
  doctor, then the script with the fault mended, also under the doctor, each in a process of its own.
  Whoever promises no time is only run as it is, as often.
* **Healthy scripts** are run five times each: a finding above information level is a false one.
{VERDICTS}""",
    "scaling": """\
* **Figures, taken in turns.** Contenders run A B C A B C ..., at most seven rounds here; a figure is the median
  over the rounds, and those in brackets are the lower and upper quartile. Whiskers in a picture are the same quartiles.
* **Equality first.** Before anything is timed, a whole pass of every reader is compared with the source, bit for bit.
* **Rivals at their best.** Of a rival's documented ways the one that is fastest in a pass before is timed.
* **Limits.** The dashed lines are what the machine itself does, in the same rounds: copying memory into memory that was
  used before, with as many threads as there are cores, and reading a file from one end to the other in large blocks,
  after it was dropped from the page cache.
* **Warm** is from the page cache. **Cold** is after its files were dropped from it before each pass, off the clock.""",
}
