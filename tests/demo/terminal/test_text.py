"""The demo's acts as text: tables that are aligned, transcripts, and what is named at the end."""

from dataclasses import replace

from cordwood.demo.acts.views import view_ways
from cordwood.demo.acts.ways import GOALS
from cordwood.demo.report import BatchRow, SampleRow, Step, TrainingRow, ViewRow
from cordwood.demo.terminal.text import compared_text, doctored_text, format_report, training_text, views_text
from tests.demo.reports import make_doctored, make_report


def test_all_acts_are_told() -> None:
    assert format_report(make_report()).splitlines() == [
        "The main jobs of Cordwood on a small scale, in x y/demo",
        "Six acts, about a minute and a half on two cores. Every figure is measured here",
        "and now; times depend on what else the machine does.",
        "",
        "1. An image folder",
        "",
        "  40 JPEG files in 2 folders, one a class, 4.0 kB:",
        "  x y/demo/images",
        "",
        "2. Packed: resized, cropped and normalised once, kept as a store",
        "",
        "  $ cordwood pack 'x y/demo/images' s.cordwood --transform image=prep:prepare \\",
        "      --goal fast",
        "",
        "  x y/demo/s.cordwood",
        "  samples                            40",
        "  inputs                             40",
        "  bytes in                       4.0 kB",
        "  bytes of the values          160.0 kB",
        "  torch.save would have taken  170.0 kB  counted by the first 16 samples, saved",
        "                                         one by one",
        "  bytes out                     16.0 kB  1 shard, 10.0x smaller than the values",
        "                                         4.0x the bytes of the source files",
        "  time                             0:02  50.0 samples/s, behind 0:01 in which",
        "                                         workers started",
        "  next: ds = cw.open('x y/demo/s.cordwood')",
        "",
        "3. What people do today, and Cordwood:",
        "   40 float32 tensors of 3x8x8, read with one thread, median",
        "",
        "  way to keep it     bytes each  of torch.save  read in  same bits",
        "  -----------------  ----------  -------------  -------  ---------",
        "  slices                 16,000        1600.0%  5.00 ms        yes",
        "  plain                   1,000         100.0%  2.50 ms        yes",
        "  a much longer way          62           6.2%  12.3 ms         no",
        "  a store                   100          10.0%  1.00 ms        yes",
        "",
        "  a much longer way: a | b",
        "",
        "  The same in batches of 64, in random order, without workers; median:",
        "",
        "  way to keep it  write one  read a batch  images/s  same bits",
        "  --------------  ---------  ------------  --------  ---------",
        "  files                   -        500 ms       128        yes",
        "  a store           2.50 ms       16.0 ms     4,000         no",
        "",
        "  write one: for the store, the time of act 2 with all that is done once, shared",
        "    out: images are prepared in it, and the store is synced; the files are",
        "    written from prepared tensors, and not synced",
        "  read a batch: files are read one by one in one thread and stacked, a batch of",
        "    the store by one native call",
        "",
        "4. A small net that sees each of them 10 times, in batches of 32;",
        "   the first step is not counted",
        "",
        "  fed by      images/s  waiting   a step  same weights",
        "  ----------  --------  -------  -------  ------------",
        "  files            800    25.0%  30.0 ms           yes",
        "  tensors          800    25.0%  30.0 ms           yes",
        "  the Loader     1,600     5.0%  19.0 ms            no",
        "",
        "  waiting: the part of the time in which a step had no batch yet; where other",
        "    programs keep the cores busy, some of it is waiting for a core",
        "  a step: the time that it took then; the net has one thread, loading has all",
        "    cores: where it needs more than are free, it takes them from the net",
        "  same weights: batches and their order are the same in all ways, bit for bit,",
        "    and so is what is learned",
        "  packing: took 2.0 s, once; a pass over the images takes 0.06 s less than from",
        "    files, so that it has paid for itself after 33 passes",
        "  the Loader: 2 threads",
        "",
        "5. A view of 1,000 of 1,000,000 zeros, and two such views that overlap;",
        "   bytes of the files",
        "",
        "  way to save   one view  two views  same bits  still shared",
        "  -----------  ---------  ---------  ---------  ------------",
        "  torch.save   4,001,661  4,001,732        yes           yes",
        "  ours               846        891        yes            no",
        "  trimmed            846      7,090        yes           yes",
        "",
        "  still shared: what is written through one view after loading is seen through",
        "    the other",
        "  .pt files: all of them were read by plain torch.load",
        "",
        "6. A training script as people write it, and the doctor;",
        "   in x y/demo/doctor",
        "",
        "  $ cordwood doctor train.py",
        "  80% of each step is waiting for data: 80 ms of 100 ms",
        "  cacheable-preprocessing at train.py:9 saves 75 ± 2 ms/step (75%), verified by",
        "    trial",
        "",
        "  $ cordwood pack train:Images train.cordwood",
        "  in train.py, in place of lines 9-10:",
        "  - loader = DataLoader(",
        "  -     data)",
        "  + import cordwood as cw",
        '  + loader = cw.Loader(cw.open("train.cordwood"))',
        "",
        "  $ cordwood doctor train.py again",
        "  nothing worth changing",
        "",
        "  $ cordwood doctor compare",
        "  faster: 100 ms -> 25 ms a step",
        "  predicted 75 ms/step, got 75: within 1%",
        "",
        "  command and lines are taken from the finding as it prints them",
        "  predicted: what it said they save",
        "  a verdict tells the mean of all steps, compare the median of the means of",
        "    stretches of the run",
        "  same batches before and after, bit for bit: yes",
        "",
        "That took 87 seconds and left 41.0 MB, to look at or to delete,",
        "in x y/demo:",
        "",
        "  index.html  a page",
        "  images      the images",
        "",
        "Try next:",
        "",
        "  cordwood inspect 'x y/demo/s.cordwood'",
        "  cordwood verify 'x y/demo/s.cordwood'",
        "  cordwood inspect 'x y/demo/views/torch-save-two-views.pt'",
        "  cordwood trim 'x y/demo/views/torch-save-two-views.pt' --dry-run",
        "",
        "All of this with pictures, in a browser: x y/demo/index.html",
        "To delete all of it: rm -r 'x y/demo'",
    ]


def test_all_of_it_fits_in_80_columns() -> None:
    assert max(map(len, format_report(make_report()).splitlines())) <= 80


def test_tables_with_the_longest_names_and_figures_fit() -> None:
    report = make_report()
    goals = max((f'codecs.encode(x, "{goal}")' for goal in GOALS), key=len)
    compared = replace(
        report.compared,
        rows=[SampleRow("plain", 603_611, 0.0123, True), SampleRow(goals, 9_635_291, 0.123, True)],
        batches=[BatchRow("the JPEG files, prepared again", 0.1, 12.0, 64, False)],
    )
    slow = [Step(1.0, 12.0, 2.0)]
    feeds = [TrainingRow("JPEG files, DataLoader, 64 workers", 64, slow, True)]
    views = [ViewRow(way.title, 4_001_661, 4_001_732, True, True) for way in view_ways()]
    report = replace(
        report,
        compared=compared,
        training=replace(report.training, rows=feeds),
        views=replace(report.views, rows=views),
    )
    texts = (compared_text(report.compared), training_text(report.training), views_text(report.views))
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80


def test_without_advice_there_is_nothing_to_follow() -> None:
    assert doctored_text(make_doctored(closed=False)).splitlines() == [
        "6. A training script as people write it, and the doctor;",
        "   in x y/demo/doctor",
        "",
        "  $ cordwood doctor train.py",
        "  80% of each step is waiting for data: 80 ms of 100 ms",
        "  cacheable-preprocessing abstained: there is no time for a trial",
        "",
        "  no advice, so there was nothing to follow: is the machine busy with something",
        "    else?",
    ]


def test_packing_is_paid_back_after_some_passes() -> None:
    training = replace(make_report().training, packed_seconds=2.1)
    files, ours = training.rows[0], training.rows[-1]
    images = (960 + 32) / 10
    saved = images / files.images_a_second - images / ours.images_a_second
    assert training.saved_a_pass == saved > 0
    passes = -(-2.1 // saved)
    assert training.paid_back.startswith(
        f"took 2.1 s, once; a pass over the images takes {saved:.2f} s less than from "
    )
    assert training.paid_back.endswith(f"paid for itself after {passes:.0f} {'pass' if passes == 1 else 'passes'}")
    told = " ".join(training_text(training).split())
    assert training.paid_back in told
    started = replace(training, starting_seconds=1.4)
    assert started.paid_back.startswith(
        "took 2.1 s, once, 1.4 of them to start workers, however many images there are; "
    )
    slower = replace(training, rows=[replace(ours, is_ours=False), replace(files, is_ours=True)])
    assert slower.paid_back.endswith("takes no less time than from the first way")
