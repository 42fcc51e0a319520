"""The rules: each reads the evidence of a run and returns findings. Most have a file of their own.

Reading order:

* ``judging`` - runs every rule; reconciles findings that claim the same time
* ``data`` - loading: waiting, workers, transfers
* ``compute`` - the step itself: layout, precision, Python, syncs
* ``correctness`` - wrong or wasteful code that need not be slow
* ``architecture`` - the shape of layers
* ``pages`` - makes the pages in docs/rules from the rules

``ALL_RULES`` below is the list of rules, in the order in which they run. Imports ``evidence``, ``code``, ``measure``,
``replay``, ``trials``, ``wording``, ``store`` and ``common``; used by ``run``. The docstring of ``cordwood.doctor``
says what a new rule needs.
"""

from cordwood.doctor.evidence.findings import Rule
from cordwood.doctor.rules.architecture.shufflenet import ShuffleNetG1, ShuffleNetG2, ShuffleNetG3, ShuffleNetG4
from cordwood.doctor.rules.compute.cudnn_benchmark import CudnnBenchmark
from cordwood.doctor.rules.compute.hidden_sync import HiddenSync
from cordwood.doctor.rules.compute.non_contiguous import NonContiguous
from cordwood.doctor.rules.compute.precision import Precision
from cordwood.doctor.rules.compute.python_bound import PythonBound
from cordwood.doctor.rules.correctness.bloated_save import BloatedSave
from cordwood.doctor.rules.correctness.eval_in_train_mode import EvalInTrainMode
from cordwood.doctor.rules.correctness.eval_without_no_grad import EvalWithoutNoGrad
from cordwood.doctor.rules.correctness.graph_leak import GraphLeak
from cordwood.doctor.rules.correctness.unused_parameters import UnusedParameters
from cordwood.doctor.rules.data.cacheable_preprocessing import CacheablePreprocessing
from cordwood.doctor.rules.data.data_starved import DataStarved
from cordwood.doctor.rules.data.iterator_per_batch import IteratorPerBatch
from cordwood.doctor.rules.data.transfer import Transfer
from cordwood.doctor.rules.data.whole_batches import WholeBatches
from cordwood.doctor.rules.data.workers import Workers

ALL_RULES: tuple[type[Rule], ...] = (
    DataStarved,
    IteratorPerBatch,
    WholeBatches,
    Workers,
    CacheablePreprocessing,
    NonContiguous,
    HiddenSync,
    PythonBound,
    Precision,
    Transfer,
    CudnnBenchmark,
    GraphLeak,
    UnusedParameters,
    EvalWithoutNoGrad,
    EvalInTrainMode,
    BloatedSave,
    ShuffleNetG1,
    ShuffleNetG2,
    ShuffleNetG3,
    ShuffleNetG4,
)
