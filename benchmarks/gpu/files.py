"""Checks of tensor files with tensors that are on the device: `cw.save`, `cw.load`, `cw.inspect` and `cw.trim`."""

from typing import Any

import torch

import cordwood as cw
from benchmarks.gpu.checks import Check, Setting, SkippedCheck


def saved_tensors_come_back(setting: Setting) -> str:
    for suffix in (".pt", ".cord"):
        path = setting.folder / f"saved{suffix}"
        state = _state(setting)
        cw.save(state, path)
        _assert_equal(cw.load(path), state, setting.device)  # without map_location: where they were
        _assert_equal(cw.load(path, map_location="cpu"), state, torch.device("cpu"))
        if suffix == ".pt":
            _assert_equal(torch.load(path), state, setting.device)
    return ""


def map_location_is_followed(setting: Setting) -> str:
    on_host = {name: tensor.cpu() for name, tensor in _state(setting).items()}
    kind = setting.device.type
    for suffix in (".pt", ".cord"):
        path = setting.folder / f"mapped{suffix}"
        cw.save(on_host, path)
        for where in (setting.device, str(setting.device), {"cpu": str(setting.device)}, lambda s, _: _moved(s, kind)):
            _assert_equal(cw.load(path, map_location=where), on_host, setting.device)
        only = cw.load(path, map_location=setting.device, only="weight")
        _assert_equal(only, {"weight": on_host["weight"]}, setting.device)
    return ""


def safetensors_are_loaded_to_the_device(setting: Setting) -> str:
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise SkippedCheck("the package safetensors is not installed") from None
    path = setting.folder / "weights.safetensors"
    state = {"weight": torch.rand(64, 32), "bias": torch.arange(64)}
    save_file(state, path)
    _assert_equal(cw.load(path, map_location=setting.device), state, setting.device)
    return ""


def views_share_memory_on_the_device(setting: Setting) -> str:
    path = setting.folder / "views.cord"
    weight = torch.rand(64, 32, device=setting.device)
    cw.save({"weight": weight, "row": weight[3]}, path)
    loaded = cw.load(path)
    loaded["weight"][3] = 7.0
    assert loaded["row"].eq(7.0).all(), "a view and its base do not share memory after loading"
    return ""


def saving_in_the_background_keeps_the_values(setting: Setting) -> str:
    """What is written is what was there at the call, though the tensors change while the file is written."""
    for suffix in (".pt", ".cord"):
        path = setting.folder / f"background{suffix}"
        weight = torch.zeros(4 << 20, device=setting.device)
        busy = setting.work(20.0)
        busy()
        weight += 1.0  # still queued when the call begins
        saving = cw.save({"weight": weight}, path, background=True)
        weight += 1.0
        assert saving is not None, "cw.save(background=True) returned nothing to wait for"
        saving.result()
        found = cw.load(path, map_location="cpu")["weight"].unique().tolist()
        assert found == [1.0], f"{path.name} holds {found}, not the values at the time of the call"
    return ""


def checkpoints_are_trimmed(setting: Setting) -> str:
    path, small = setting.folder / "big.pt", setting.folder / "small.pt"
    batch = torch.rand(64, 1024, device=setting.device)
    torch.save({"row": batch[3]}, path)
    assert cw.inspect(path).wasted > 0, "cw.inspect sees no waste in a file with a whole batch behind one row"
    cw.trim(path, small)
    assert small.stat().st_size < path.stat().st_size / 8, "cw.trim left the waste"
    _assert_equal(torch.load(small), {"row": batch[3]}, setting.device)
    return ""


def _state(setting: Setting) -> dict[str, torch.Tensor]:
    numbers = torch.arange(96, device=setting.device)
    return {
        "weight": torch.rand(256, 64, device=setting.device),
        "half": torch.rand(33, device=setting.device).to(torch.bfloat16),
        "numbers": numbers,
        "every second": numbers[::2],
        "empty": torch.empty(0, 3, device=setting.device),
    }


def _moved(storage: Any, kind: str) -> Any:
    return storage.cuda() if kind == "cuda" else storage.to(device=kind) if kind != "cpu" else storage


def _assert_equal(loaded: dict[str, Any], expected: dict[str, torch.Tensor], device: torch.device) -> None:
    assert sorted(loaded) == sorted(expected), f"the names are {sorted(loaded)}, not {sorted(expected)}"
    for name, tensor in expected.items():
        found = loaded[name]
        assert found.device == device, f"{name} is on {found.device}, not on {device}"
        assert found.dtype == tensor.dtype, f"{name} is {found.dtype}, not {tensor.dtype}"
        assert torch.equal(found.cpu(), tensor.cpu()), f"{name} has other values"


CHECKS: list[Check] = [
    saved_tensors_come_back,
    map_location_is_followed,
    safetensors_are_loaded_to_the_device,
    views_share_memory_on_the_device,
    saving_in_the_background_keeps_the_values,
    checkpoints_are_trimmed,
]
