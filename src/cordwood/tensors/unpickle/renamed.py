"""Names that moved since a file was written: modules of Python 2, and torch's own."""

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING

_TORCH = {"torch.tensor": "torch._tensor"}


def moved(module: str, name: str) -> tuple[str, str]:
    """Where a global of a file is found today."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[(module, name)]
    module = IMPORT_MAPPING.get(module, module)
    return _TORCH.get(module, module), name
