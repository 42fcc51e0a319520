"""The two readers under test behind one face: the plain one of the docs, and the native one of the package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.codecs.stages.raw import Raw
from tests.format.support.craft import Array

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "format" / "frame.md"


def load_reader(name: str) -> ModuleType:
    """A reader is documentation: it is in no package, and looks for the frames' reader beside it."""
    path = ROOT / "docs" / "format" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"cordwood_docs_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is gone")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reader = load_reader("reader")
sys.modules.setdefault("reader", reader)


def plan_of(assets: bytes) -> codecs.Plan:
    """A plan that owns these assets; its chain matters to writers only."""
    return codecs.Plan.single("raw", "uint8", (Raw(),), Assets(assets))


def owned_by(plan: codecs.Plan | None) -> dict[int, bytes]:
    """What the chains of a plan own, by hash."""
    chains = plan.chains if plan is not None else ()
    return {chain.assets.hash: chain.assets.encoded for chain in chains if chain.assets.encoded}


def native_read(frame: bytes, assets: bytes | None = None, limit: int | None = None) -> tuple[Array, str]:
    """What the native decoder makes of a frame, in the plain reader's form."""
    plans = () if assets is None else (plan_of(assets),)
    return codecs.decode(frame, plans=plans, limit=limit), codecs.frame_info(frame).dtype


def same_bits(a: Array, b: Array) -> bool:
    """Equal in shape, type and every bit: NaNs and the sign of zero too."""
    same_form = a.shape == b.shape and a.dtype == b.dtype
    return same_form and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
