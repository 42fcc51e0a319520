"""Reports which low-precision numbers the hardware supports natively, so that trying them makes sense.

    has_bfloat16(torch.device("cpu"))
    tf32_is_off(torch.device("cuda"))

Where bfloat16 is only emulated, it is many times slower than float32.
"""

import platform

import torch

_AMPERE = 8  # the first major version of CUDA devices with TF32


def has_bfloat16(device: torch.device) -> bool:
    """Whether matrix products of bfloat16 have instructions of their own there."""
    if device.type == "cpu":
        return _cpu_has_bfloat16()
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "xpu":
        return bool(torch.xpu.is_available())
    return False


def _cpu_has_bfloat16() -> bool:
    # Private names of torch's, and not in all versions: what is not there is not known, and so not advised.
    if any(getattr(torch.cpu, name, bool)() for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported")):
        return True
    if platform.machine() not in ("aarch64", "arm64"):
        return False
    asked = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", bool)
    return bool(asked())


def tf32_is_off(device: torch.device) -> bool:
    """Whether float32 matrix products could use TF32, and do not."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] >= _AMPERE and torch.get_float32_matmul_precision() == "highest"
