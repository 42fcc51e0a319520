"""Whether a name that a file asks for could be imported here, found out without importing anything.

Importing a module runs it, and the file says which: so a module is only looked for, where Python would look.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder


def can_import(module: str, name: str) -> bool:
    """Whether ``module`` is there, and has ``name`` as far as that can be seen."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        return _has(loaded, name)
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    spec = _top_level(parts[0])
    for depth in range(1, len(parts)):
        if spec is None or spec.submodule_search_locations is None:
            return False
        try:
            spec = PathFinder.find_spec(".".join(parts[: depth + 1]), list(spec.submodule_search_locations))
        except (ImportError, ValueError, OSError):
            return False
    return spec is not None


def _has(module: object, name: str) -> bool:
    """Looks at what is there; an attribute that a module would make on demand counts as there."""
    first = name.partition(".")[0]
    names = getattr(module, "__dict__", {})
    return first in names or "__getattr__" in names


def _top_level(name: str) -> ModuleSpec | None:
    """For a name without dots nothing is imported to find it."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, OSError):
        # A module that somebody put into sys.modules by hand has no spec.
        return None
