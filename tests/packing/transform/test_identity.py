"""The identity of a transform: the same in every process, and another one after every change that matters."""

import functools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.packing.transform.function_source import source_of, without_comments
from cordwood.packing.transform.identity import contents_of, difference, identity_of

MODULE = """
import enum
import functools
import os
import sys
import threading
import numpy as np
import torch
import other_prep

MEAN = (0.5, 0.25)
NAMES = {{"cat", "dog", "bird", "horse", "sheep"}}
LOCK = threading.Lock()
RANDOM = np.random.default_rng()

class Kind(enum.Enum):
    A = 1
    B = 2

def helper(x):
    return x * {factor}

def used_by_method(x):
    return x - {inner}

class Scale:
    size = {size}
    def __init__(self, by):
        self.by = by
        self.kinds = {{Kind.A, Kind.B}}
    def __call__(self, x):
        return used_by_method(x) * self.by

def prepare(x):
    with LOCK:
        os.environ.get("HOME"), sys.argv, sys.path
        return [np.float32(y) for y in (helper(x), other_prep.shift(x), MEAN[0], len(NAMES), RANDOM.random())]

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), {weight}))
    def forward(self, x):
        return x * self.weight

@functools.wraps(helper)
def wrapper(x):
    return helper(x) + {added}

@functools.lru_cache
def cached(x):
    return x + {added}

instance = Scale({by})
net = Net()
partial = functools.partial(prepare, {argument})
both = {{"a": prepare, "b": instance}}
"""
USUAL = {"factor": 2, "size": 3, "by": 4, "weight": 1.0, "added": 1, "argument": 7, "inner": 1, "other": 5}
MADE = ("prepare", "instance", "net", "partial", "wrapper", "cached", "both")
CHANGES = {
    "factor": {"prepare", "partial", "wrapper", "both"},
    "size": {"instance", "both"},
    "by": {"instance", "both"},
    "inner": {"instance", "both"},
    "weight": {"net"},
    "added": {"wrapper", "cached"},
    "argument": {"partial"},
    "other": {"prepare", "partial", "both"},
}


PROGRAM = """
import importlib, json, sys
from cordwood.packing.transform.identity import identity_of

names, folders, run = json.loads(sys.argv[1])
found = []
for folder in folders:
    sys.path.insert(0, folder)
    prep = importlib.import_module("prep")
    exec(run)
    found.append({name: identity_of(getattr(prep, name)) for name in names})
    del sys.path[0], sys.modules["prep"], sys.modules["other_prep"]
print(json.dumps(found))
"""


def write_module(folder: Path, values: dict[str, Any]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "prep.py").write_text(MODULE.format(**values))
    (folder / "other_prep.py").write_text(f"def shift(x):\n    return x + {values['other']}\n")
    return str(folder)


def identities(*folders: str, hash_seed: int = 0, run: str = "") -> list[dict[str, Any]]:
    """What another process tells of the transforms in the modules of these folders."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([MADE, folders, run])],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return identities(write_module(tmp_path_factory.mktemp("usual"), USUAL))[0]


@pytest.mark.slow
def test_it_is_the_same_in_every_process_and_place(usual: dict[str, Any], tmp_path: Path) -> None:
    folder = write_module(tmp_path, USUAL)
    # The second time the module comes from its cache; and drawing and calling change nothing.
    run = "prep.prepare(1), prep.instance(2), prep.cached(3), prep.wrapper(4)"
    assert identities(folder, folder, hash_seed=1, run=run) == [usual, usual]
    assert len({one["hash"] for one in usual.values()}) == len(MADE)


@pytest.mark.slow
def test_names_are_those_of_the_callables(usual: dict[str, Any]) -> None:
    assert {name: one["name"] for name, one in usual.items()} == {
        "prepare": "prep:prepare",
        "instance": "prep:Scale",
        "net": "prep:Net",
        "partial": "functools.partial(prep:prepare)",
        "wrapper": "prep:helper",
        "cached": "prep:cached",
        "both": "a=prep:prepare, b=prep:Scale",
    }


@pytest.mark.slow
def test_every_change_is_seen_where_it_matters_and_nowhere_else(usual: dict[str, Any], tmp_path: Path) -> None:
    changes = {name: {**USUAL, name: USUAL[name] + 1} for name in CHANGES}
    found = identities(*(write_module(tmp_path / name, values) for name, values in changes.items()))
    seen = {
        change: {name for name in MADE if after[name] != usual[name]}
        for change, after in zip(CHANGES, found, strict=True)
    }
    assert seen == CHANGES


# ---- one process -----------------------------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    return identity_of(one)["hash"] == identity_of(other)["hash"]


def added(number: Any) -> Callable[[int], Any]:
    def add(x: int) -> Any:
        return x + number

    return add


def test_closures_count_by_their_values() -> None:
    assert same(added(3), added(3))
    assert not same(added(3), added(4))
    assert not same(added(1), added(True))
    assert not same(added(0.0), added(-0.0))
    assert same(added({"a": [1, {2, 3}]}), added({"a": [1, {3, 2}]}))
    assert not same(added([1, 2]), added((1, 2)))


def test_a_lambda_is_its_own_text_and_not_its_line() -> None:
    pair: list[Any] = [lambda x: x + 1, lambda x: x + 2]  # two on one line
    assert source_of(pair[0]) == "lambda x: x + 1"
    assert source_of(pair[1]) == "lambda x: x + 2"
    calls: list[Any] = []
    calls.append((lambda x: x * 2, "workers=2"))
    calls.append((lambda x: x * 2, "workers=8"))
    assert same(calls[0][0], calls[1][0])
    assert not same(*pair)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("def f(x):  # of x\n    # adds\n\n    return x + 1  # one\n", "def f(x):\n    return x + 1\n"),
        ('def f():\n    return """\n\n# text\n"""\n', 'def f():\n    return """\n\n# text\n"""\n'),
        ("f = (\n    1,  # a\n\n    # b\n    2,\n)\n", "f = (\n    1,\n    2,\n)\n"),
        ('x = "#"  # "', 'x = "#"'),
        ("lambda x: (x", "lambda x: (x"),
    ],
)
def test_comments_and_empty_lines_do_not_count(text: str, left: str) -> None:
    assert without_comments(text) == left


def test_a_lambda_over_several_lines_is_found() -> None:
    functions: list[Any] = [
        # a comment
        lambda x: (
            x,
            1,
        )
    ]
    text = source_of(functions[0])
    assert text is not None
    assert text.startswith("lambda x: (")
    assert text.endswith(")")


def test_without_a_source_the_compiled_form_counts() -> None:
    def made(text: str) -> Any:
        namespace: dict[str, Any] = {}
        exec(text, namespace)
        return namespace["f"]

    one = made("def f(x):\n    return x + 1\n")
    assert isinstance(one, FunctionType)
    assert source_of(one) is None
    assert same(one, made("# moved\n\ndef f(x):\n    return x + 1\n"))
    assert not same(one, made("def f(x):\n    return x + 2\n"))
    assert not same(one, made("def f(x):\n    return x - 1\n"))
    assert not same(one, made("def f(x, y=3):\n    return x + 1\n"))
    assert not same(made("k = 1\ndef f(x):\n    return x + k\n"), made("k = 2\ndef f(x):\n    return x + k\n"))


def test_defaults_count() -> None:
    def made(default: Any) -> Callable[..., Any]:
        def f(x: int, y: Any = default, *, z: Any = default) -> Any:
            return x, y, z

        return f

    assert same(made(1), made(1))
    assert not same(made(1), made(2))


class Holder:
    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)

    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.arange(3), torch.arange(1, 4)),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
        (np.zeros(2), np.ones(2)),
        (np.float32(1), np.float64(1)),
        (torch.float32, torch.float16),
        (Path("a"), Path("b")),
        (Holder(a=1), Holder(a=2)),
        (added(1), added(2)),
        ("a", b"a"),
        (1 + 2j, 1 - 2j),
        (int, float),
        (torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(3, 2, bias=False)),
    ],
)
def test_state_of_an_object_counts(one: Any, other: Any) -> None:
    assert same(Holder(value=one), Holder(value=one))
    assert not same(Holder(value=one), Holder(value=other))
    assert same(Holder(value=one).method, Holder(value=one).method)
    assert not same(Holder(value=one).method, Holder(value=other).method)


def test_views_count_by_what_they_show() -> None:
    assert same(Holder(value=torch.arange(6).reshape(2, 3).t()), Holder(value=torch.tensor([[0, 3], [1, 4], [2, 5]])))


def test_equal_parts_may_be_one_object_or_two() -> None:
    part = [1, 2]
    assert same(Holder(a=part, b=part), Holder(a=[1, 2], b=[1, 2]))


def test_what_is_neither_code_nor_value_counts_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(Holder(a=threading.Lock()), Holder(a=threading.Lock()))
    assert same(Holder(a=random.Random(1)), Holder(a=random.Random(2)))
    assert same(Holder(a=np.random.default_rng()), Holder(a=np.random.default_rng()))
    assert same(Holder(a=torch.Generator().manual_seed(1)), Holder(a=torch.Generator().manual_seed(2)))
    assert not same(Holder(a=threading.Lock()), Holder(a=random.Random(1)))
    before = identity_of(Holder(a=os.environ))
    monkeypatch.setenv("SOMETHING", "else")
    assert identity_of(Holder(a=os.environ)) == before


def test_what_holds_itself_comes_to_an_end() -> None:
    around: list[Any] = [1]
    around.append(around)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert same(Holder(a=around), Holder(a=around))
    assert same(Holder(a=deep), Holder(a=deep))


def test_functions_of_c_and_of_installed_packages() -> None:
    assert identity_of(len)["name"] == "builtins:len"
    assert not same(len, abs)
    assert not same("a".join, "b".join)
    assert same("a".join, "a".join)
    assert identity_of(torch.neg)["name"] is not None
    assert same(torch.nn.functional.relu, torch.nn.functional.relu)
    assert not same(torch.nn.functional.relu, torch.nn.functional.gelu)


def test_partials_and_mappings() -> None:
    add = added(1)
    assert not same(functools.partial(add, 1), functools.partial(add, 2))
    assert not same({"a": add}, {"b": add})
    assert (
        identity_of({"a": add, "b": len})["name"]
        == "a=tests.packing.transform.test_identity:added.<locals>.add, b=builtins:len"
    )


def test_no_transform_has_an_identity_too() -> None:
    nothing = identity_of(None)
    assert nothing["name"] is None
    assert nothing == identity_of(None)
    assert not same(None, len)


def test_the_difference_in_words() -> None:
    one, two = identity_of(added(1)), identity_of(added(2))
    assert difference(one, one) is None
    assert "source of the transform tests.packing.transform.test_identity:added" in (difference(one, two) or "")
    assert "was tests.packing.transform.test_identity:added" in (difference(one, identity_of(None)) or "")
    assert "is none now" in (difference(one, identity_of(None)) or "")
    assert "'1' and is '2' now" in (difference(identity_of(len, "1"), identity_of(len, "2")) or "")


# ---- what samples come from ------------------------------------------------------------------------------------------


class Data(torch.utils.data.Dataset[int]):
    """A dataset with arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments = arguments
        self.options = options

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> int:
        return number


class OtherData(Data):
    """Another class with the same arguments."""

    def __getitem__(self, number: int) -> int:
        return -number


def counting(first: int, step: int = 1) -> Iterator[int]:
    while True:
        yield first
        first += step


def changed(tensor: torch.Tensor, place: int) -> torch.Tensor:
    copy = tensor.clone()
    copy[place] += 1
    return copy


LARGE = torch.arange(1_000_000)
WIDE = np.random.default_rng(0).random(500_000)


@pytest.mark.parametrize(
    ("one", "equal", "others"),
    [
        ([1, 2, 3], [1, 2, 3], [[4, 5, 6], [1, 2], [1, 2, 3, 4], (1, 2, 3), [1, 2, 3.0]]),
        (Data(1, root="a"), Data(1, root="a"), [Data(2, root="a"), Data(1, root="b"), OtherData(1, root="a")]),
        (counting(5), counting(5), [counting(6), counting(5, 2), iter([5])]),
        (counting, counting, [added, Data]),
        (functools.partial(counting, 5), functools.partial(counting, 5), [functools.partial(counting, 6)]),
        (iter([1, 2]), iter([1, 2]), [iter([1, 3]), iter((1, 2))]),
        (range(9), range(9), [range(10)]),
        ({"x": LARGE}, {"x": LARGE.clone()}, [{"x": LARGE + 1}, {"y": LARGE}, {"x": LARGE[:-1]}, {"x": LARGE.int()}]),
        (LARGE, LARGE.clone(), [changed(LARGE, 0), changed(LARGE, -1), LARGE.flip(0), LARGE.reshape(1000, 1000)]),
        (WIDE, WIDE.copy(), [np.random.default_rng(1).random(500_000), WIDE[::-1], WIDE.astype(np.float32)]),
        (Data(WIDE), Data(WIDE.copy()), [Data(WIDE + 1e-9), Data(WIDE, None)]),
        (list(range(5000)), list(range(5000)), [list(range(1, 5001)), list(range(5001)), [*range(4999), 0]]),
    ],
)
def test_contents_are_told_by_code_and_data(one: Any, equal: Any, others: list[Any]) -> None:
    assert contents_of(one) == contents_of(equal)
    found = [contents_of(one), *map(contents_of, others)]
    assert len(set(found)) == len(found)


@pytest.mark.slow
def test_of_large_data_a_part_is_looked_at() -> None:
    """No more than that: a change somewhere in the middle costs too much to find."""
    kept = next(place for place in range(400_000, 600_000) if contents_of(changed(LARGE, place)) == contents_of(LARGE))
    assert identity_of(Holder(value=changed(LARGE, kept)))["hash"] != identity_of(Holder(value=LARGE))["hash"]


def test_looking_at_an_iterator_takes_nothing_from_it() -> None:
    numbers, made = iter([1, 2]), counting(5)
    before = contents_of(numbers), contents_of(made)
    assert (contents_of(numbers), contents_of(made)) == before
    assert (next(numbers), next(made)) == (1, 5)
    assert contents_of(numbers) != before[0]


CONTENTS = """
import functools, json
import numpy as np, torch
from cordwood.packing.transform.identity import contents_of

class Data(torch.utils.data.Dataset):
    kinds = {"cat", "dog", "bird", "horse"}
    def __init__(self, *arguments):
        self.arguments = arguments
        self.labels = {"cat", "dog", "bird", "horse"}
        self.rows = {"a": {1, 2, "x"}, "b": frozenset("abcdef")}
    def __getitem__(self, number):
        return self.arguments[number]

def generator(first):
    yield first

made = [
    Data(1, "a", torch.arange(300_000), np.ones(5)),
    generator(5),
    generator,
    functools.partial(generator, 5),
    [{"x": torch.ones(3), "label": {"a", "b", "c"}}] * 1000,
    iter(["a", "b"]),
]
print(json.dumps([contents_of(one) for one in made]))
"""


@pytest.mark.slow
def test_contents_are_the_same_in_every_process() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", CONTENTS],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    ]
    assert found[0] == found[1]
    assert len({tuple(each) for each in json.loads(found[0])}) == 6
