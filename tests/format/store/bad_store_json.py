"""Bad stores whose `store.json` is at fault: at least one for each number of the page that is about that file."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.format.store.craft_store import INT, Folder, body, good_store, mapping, node, store_json


@dataclass(frozen=True)
class Bad:
    """A store, the number of what is wrong with it, and what that is in this case."""

    number: int
    label: str
    folder: Folder


def with_files(**files: bytes) -> Folder:
    """The good store with other files; `store_json=` is `store.json`."""
    return good_store() | {name.replace("_", "."): data for name, data in files.items()}


def without(*names: str) -> Folder:
    return {name: data for name, data in good_store().items() if name not in names}


def bad_manifests() -> Iterator[Bad]:
    good = good_store()["store.json"]
    text = good.decode()
    yield Bad(1, "no store.json", without("store.json"))
    for label, data in {
        "empty": b"",
        "not JSON": b"{",
        "bytes behind it": good + b"x",
        "not UTF-8": text.replace('"n"', '"\xe4"').encode("latin1"),
        "a byte-order mark": b"\xef\xbb\xbf" + good,
        "a list": b"[" + good + b"]",
        "deep": b"[" * 100_000,
        "a member twice": text.replace('"body":', '"body": 1, "body":', 1).encode(),
        "a member twice below": text.replace('"name": "x"', '"name": "x", "name": "x"').encode(),
        "a float": text.replace("67108864", "67108864.0").encode(),
        "an exponent": text.replace("67108864", "67108864e0").encode(),
        "a long number": text.replace("67108864", "1" * 5000).encode(),
        "a number out of range": text.replace("67108864", str(2**63)).encode(),
        "NaN": text.replace("67108864", "NaN").encode(),
        "no body": b'{"cordwood_store": [1, 0], "crc32c": "00000000"}',
    }.items():
        yield Bad(2, label, with_files(store_json=data))
    for version in (1, [1], [1, 0, 0], ["1", "0"], None):
        yield Bad(2, f"version {version}", with_files(store_json=store_json(body(), version=version)))
    for version in ([0, 9], [2, 0]):
        yield Bad(3, f"version {version}", with_files(store_json=store_json(body(), version=version)))
    yield Bad(4, "another checksum", with_files(store_json=store_json(body(), checksum="12345678")))
    yield Bad(4, "something else in the body", with_files(store_json=good.replace(b'"t"', b'"u"')))
    yield Bad(5, "a feature", with_files(store_json=store_json(body() | {"!later": None})))


def changed_body(number: int, label: str, change: Callable[[Any], Any]) -> Bad:
    """The good store with something else in its body, rightly sealed."""
    made = copy.deepcopy(body())
    change(made)
    return Bad(number, label, with_files(store_json=store_json(made)))


def changed_field(number: int, label: str, place: int = 0, drop: str | None = None, **members: Any) -> Bad:
    """The good store with something else in one of its fields."""

    def change(made: Any) -> None:
        made["fields"][place].pop(drop, None)
        made["fields"][place].update(members)

    return changed_body(number, label, change)


def bad_bodies() -> Iterator[Bad]:
    yield changed_body(2, "no schema", lambda made: made.pop("schema"))
    yield changed_body(2, "no fields", lambda made: made.pop("fields"))
    yield changed_body(2, "no options", lambda made: made.pop("options"))
    wrongs: dict[str, list[Any]] = {
        "name": [1, None],
        "goal": ["best", 1],
        "plan": [7, "x", "../../../etc/passwd", "0123456789ABCDEF"],
        "store_as": [True],
        "classes": ["abc", [1]],
        "keep_encoded": [1, "image"],
    }
    for member, values in wrongs.items():
        if member in ("name", "goal"):
            yield changed_field(2, f"no {member} of a field", drop=member)
        for value in values:
            yield changed_field(2, f"{member} {value} of a field", **{member: value})
    yield changed_body(2, "optional is a text", lambda made: made.update(optional="x"))
    yield changed_body(2, "optional has a number", lambda made: made.update(optional=[0]))
    yield changed_body(7, "optional has another name", lambda made: made.update(optional=["y"]))
    yield changed_body(2, "fields are an object", lambda made: made.update(fields={}))
    yield changed_body(2, "an unknown goal", lambda made: made["options"].update(goal="best"))
    yield changed_body(2, "no shard_bytes", lambda made: made["options"].pop("shard_bytes"))
    yield changed_body(2, "shard_bytes 0", lambda made: made["options"].update(shard_bytes=0))
    yield changed_body(7, "one field less", lambda made: made["fields"].pop())
    yield changed_body(7, "fields exchanged", lambda made: made["fields"].reverse())
    yield changed_field(7, "another name of a field", name="y")
    for store_as in ("float32", "float64", "uint8", "float8"):
        yield changed_field(7, f"float32 stored as {store_as}", store_as=store_as)
    yield changed_field(7, "a text stored as float16", place=2, store_as="float16")
    yield changed_field(7, "a text that is an image", place=2, keep_encoded=True)
    yield changed_body(7, "no schema, but fields", lambda made: made.update(schema=None))
    yield changed_body(7, "no schema, but shards", lambda made: made.update(schema=None, fields=[]))


def bad_schemas() -> Iterator[Bad]:
    deep = INT
    for _ in range(64):
        deep = node("list", items=[deep])
    wrong: dict[str, Any] = {
        "an unknown kind": node("set"),
        "an unknown dtype": node("tensor", dtype="float128"),
        "an unknown type": node("scalar", type="str", dtype="int64"),
        "an int of int32": node("scalar", type="int", dtype="int32"),
        "a NumPy array of bfloat16": node("ndarray", dtype="bfloat16"),
        "a NumPy scalar of complex32": node("scalar", type="numpy", dtype="complex32"),
        "more keys than items": node("dict", keys=["a", "b"], items=[INT]),
        "a key twice": node("dict", keys=["a", "a"], items=[INT, INT]),
        "a key that is a bool": node("dict", keys=[True], items=[INT]),
        "a key that is None": node("dict", keys=[None], items=[INT]),
        "a key with a surrogate": node("dict", keys=["\udc80"], items=[INT]),
        "two leaves with one name": node("dict", keys=["1", 1], items=[INT, INT]),
        "one name by a dot": node("dict", keys=["a.b", "a"], items=[INT, mapping(b=INT)]),
        "a container and a leaf of one name": node("dict", keys=["a.b", "a"], items=[INT, mapping(b=mapping())]),
        "no identifier": node("namedtuple", name="not one", keys=["a"], items=[INT]),
        "a keyword": node("namedtuple", name="P", keys=["class"], items=[INT]),
        "a private name": node("namedtuple", name="P", keys=["_a"], items=[INT]),
        "a number of another place": node("namedtuple", name="P", keys=["_1"], items=[INT]),
        "not in normal form": node("namedtuple", name="P", keys=["\ufb01"], items=[INT]),
        "two fields of one name": node("namedtuple", name="P", keys=["a", "a"], items=[INT, INT]),
        "None alone": node("none"),
        "too deep": deep,
        "too many": node("list", items=[node("none")] * 65_537),
    }
    for label, schema in wrong.items():
        yield Bad(6, label, {"store.json": store_json(body(schema, ["value"]))})
    for label, schema in {
        "a node that is a list": [],
        "no kind": {"items": []},
        "a kind that is a number": node(7),  # type: ignore[arg-type]
        "no items": node("list"),
        "items that are an object": node("list", items={}),
        "no keys": node("dict", items=[]),
        "no dtype": node("tensor"),
        "a dtype that is a number": node("tensor", dtype=11),
        "no name": node("namedtuple", keys=[], items=[]),
        "no type": node("scalar", dtype="int64"),
    }.items():
        yield Bad(2, label, {"store.json": store_json(body(schema, ["value"]))})


BAD_STORE_JSON = [*bad_manifests(), *bad_bodies(), *bad_schemas()]
