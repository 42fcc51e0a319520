"""Imports objects that are given as text, as on the command line: ``mypkg.prep:prepare``.

    named("mypkg.prep:prepare", "transform")
    made("mypkg.data:train_set", "source")  # a class or function is called

Modules of the current folder are found, too.
"""

import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from cordwood.common.suggest import did_you_mean, nearest
from cordwood.common.text import brief
from cordwood.errors import UsageError

MAIN = ("__main__", "__mp_main__")  # a script that runs, and one that multiprocessing imports in a process of its own
_MOST_NAMES = 8
_STANDARD = sysconfig.get_path("stdlib")
_PACKAGES = frozenset(("site-packages", "dist-packages"))


def named(text: str, what: str) -> Any:
    """What ``module:name`` stands for; `what` says in messages what it is wanted for.

    Modules are looked for in the current folder first, as ``python -m`` does. The folder stays in ``sys.path``: the
    thing may import more from there later, and so do worker processes, which get the same path.
    """
    module_name, _, name = text.partition(":")
    if not is_name(text):
        raise UsageError(f"{what} is {brief(text)}, but takes module:name, such as mypkg.prep:prepare{_advice(text)}")
    found: Any = _imported(module_name, what, _advice(text))
    for depth, part in enumerate(name.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            owner = ".".join((module_name, *name.split(".")[:depth]))
            raise UsageError(f"{what} is {brief(text)}, but {owner} has no {part!r}{_others(found, part)}") from None
    return found


def module_name(thing: Any) -> str:
    """The module of a class or function, by the name that another program imports it by.

    What a script defines is in ``__main__`` while it runs, in ``__mp_main__`` where multiprocessing imports it again,
    and in ``train`` for whoever imports train.py.
    """
    name: str = getattr(thing, "__module__", None) or "builtins"
    if name not in MAIN:
        return name
    main = sys.modules.get(name)
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m pkg.train
        return str(spec.name)
    return name if file is None else Path(file).stem


def is_name(text: str) -> bool:
    """Whether a text has the form ``package.module:name``."""
    module_name, _, name = text.partition(":")
    return all(part.isidentifier() for part in (*module_name.split("."), *name.split(".")))


def made(text: str, what: str) -> Any:
    """The object that ``module:name`` stands for: a class or function is called, anything else is taken as it is."""
    found = named(text, what)
    if not isinstance(found, type) and (not callable(found) or isinstance(found, Iterable) or _by_number(found)):
        return found
    wanted = needed_arguments(found)
    if wanted:
        raise UsageError(
            f"{what} is {brief(text)}, which needs arguments ({', '.join(wanted)}): name a function that takes none "
            "and returns the dataset"
        )
    return found()


def needed_arguments(function: Any) -> list[str]:
    """The parameters that a function or class cannot be called without; none where nobody can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty and parameter.kind not in optional
    ]


def _by_number(found: Any) -> bool:
    return hasattr(type(found), "__getitem__")


def _imported(name: str, what: str, advice: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _failed(name, what, error) from error
        raise UsageError(
            f"{what} is to come from the module {name!r}, but Python finds no {error.name!r} in {here} or where "
            f"packages are installed: go to the folder that it is in, install it, or set PYTHONPATH"
            f"{advice or _other_modules(error.name)}"
        ) from None
    except Exception as error:
        raise _failed(name, what, error) from error


def _failed(name: str, what: str, error: Exception) -> UsageError:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename != __file__ and is_own_file(frame.filename)] or frames
    place = f" in {theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f" in {error.filename}, line {error.lineno}"
    return UsageError(
        f"{what} is to come from the module {name!r}, but importing it failed{place}: {type(error).__name__}: {error}"
    )


def is_own_file(name: str) -> bool:
    """Whether a file of code is the user's: not Python's own, and not that of an installed package."""
    path = Path(name)
    inside = path.is_relative_to(_STANDARD) or _PACKAGES.intersection(path.parts)
    return not inside and not name.startswith("<frozen")


def _advice(text: str) -> str:
    """What somebody meant who gave a file."""
    path, _, name = text.partition(":")
    if not path.endswith(".py"):
        return ""
    module = path.removesuffix(".py").removeprefix("./").strip("/").replace("/", ".")
    return f"; a file is named as a module: {module}:{name or 'NAME'}"


def _other_modules(missing: str) -> str:
    """A module of almost that name, in the current folder or in the package of it that was asked for."""
    *packages, last = missing.split(".")
    try:
        entries = sorted(Path(*packages).iterdir())
    except OSError:
        return ""
    names = [entry.stem for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").is_file()]
    found = nearest(last, (name for name in names if name.isidentifier()))
    return "" if found is None else f"; did you mean {'.'.join((*packages, found))!r}?"


def _others(owner: Any, name: str) -> str:
    names = [each for each in vars(owner) if not each.startswith("_")] if hasattr(owner, "__dict__") else []
    if meant := did_you_mean(name, names):
        return meant
    functions = [each for each in names if callable(getattr(owner, each, None))]
    return f": it has {', '.join(functions[:_MOST_NAMES])}" if functions else ""
