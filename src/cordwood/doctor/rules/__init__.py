"""The rules, one a file."""

from cordwood.doctor.findings import Rule
from cordwood.doctor.rules.bloatedsave import BloatedSave
from cordwood.doctor.rules.cacheable import CacheablePreprocessing
from cordwood.doctor.rules.cudnnbenchmark import CudnnBenchmark
from cordwood.doctor.rules.datastarved import DataStarved
from cordwood.doctor.rules.evalintrainmode import EvalInTrainMode
from cordwood.doctor.rules.evalwithoutnograd import EvalWithoutNoGrad
from cordwood.doctor.rules.graphleak import GraphLeak
from cordwood.doctor.rules.hiddensync import HiddenSync
from cordwood.doctor.rules.iteratorperbatch import IteratorPerBatch
from cordwood.doctor.rules.noncontiguous import NonContiguous
from cordwood.doctor.rules.precision import Precision
from cordwood.doctor.rules.pythonbound import PythonBound
from cordwood.doctor.rules.shufflenetg1 import ShuffleNetG1
from cordwood.doctor.rules.shufflenetg2 import ShuffleNetG2
from cordwood.doctor.rules.shufflenetg3 import ShuffleNetG3
from cordwood.doctor.rules.shufflenetg4 import ShuffleNetG4
from cordwood.doctor.rules.transfer import Transfer
from cordwood.doctor.rules.unusedparameters import UnusedParameters
from cordwood.doctor.rules.wholebatches import WholeBatches
from cordwood.doctor.rules.workers import Workers

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
