"""A user's program with annotations: `mypy --strict` accepts it, and objects to each line that says so.

It is checked and not run. It names every public name of Cordwood, and states with `assert_type` what calls return.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import torch

import cordwood as cw


def tensor_files(state: dict[str, torch.Tensor], wait: bool) -> None:
    assert_type(cw.save(state, "model.cord", goal="small"), None)
    saving = cw.save(state, "last.pt", durable=True, background=True)
    assert_type(saving, cw.Saving)
    saving.result(timeout=10)
    assert_type(cw.save(state, "last.pt", background=not wait), cw.Saving | None)
    assert_type(cw.load("model.cord", only=["layer4.*"]), Any)
    with cw.peek("model.pt") as file:
        assert_type(file, cw.Peek)
        assert_type(file.info("weight"), cw.TensorInfo)
        assert_type(file["weight"], torch.Tensor)
    assert_type(cw.trim("model.pt", "small.pt"), cw.Trimmed)
    assert_type(cw.trim("model.pt", dry_run=True).saved, int)
    inspection = cw.inspect("model.pt", check=False)
    rows: list[cw.TensorRow] = [row for row in inspection.tensors if row.wasted]
    print(rows)
    torch.save(state, "model.cord", pickle_module=cw.pickle_module)


def described(path: str) -> cw.Inspection | cw.StoreInspection:
    found = cw.inspect(path)
    if isinstance(found, cw.StoreInspection):
        assert_type(found.fields, list[cw.FieldRow])
        return found
    return found


def stores(samples: Iterator[dict[str, Any]]) -> cw.Dataset:
    label = cw.Field(classes=["cat", "dog"], goal="raw")
    with cw.Writer("train.cordwood", "fast", mode="resume", fields={"label": label}) as writer:
        for sample in samples:
            writer.append(sample)
        assert_type(writer.committed, int)
    ds = cw.concat([cw.open("train.cordwood"), cw.open("more.cordwood", threads=2)])
    assert_type(ds[3], Any)
    assert_type(ds[np.int64(3)], Any)
    assert_type(ds[[5, 1, 9]], Any)
    assert_type(ds[torch.arange(3)], Any)
    assert_type(ds[1:3], cw.Dataset)
    assert_type(ds.select("image", "label").subset(range(9)), cw.Dataset)
    assert_type(ds.column("label"), torch.Tensor)
    assert_type(ds.schema, cw.Schema)
    assert_type(ds.inspect(), cw.StoreInspection)
    verification = cw.verify("train.cordwood")
    assert_type(verification, cw.Verification)
    assert_type(verification.damages, list[cw.Damage])
    assert_type(cw.salvage("train.cordwood", "saved.cordwood"), cw.Salvaged)
    return ds


def told(state: cw.PackProgress) -> None:
    print(state.inputs)


def packing(source: Path, limit: int | None) -> cw.Packed:
    packed = cw.pack(source, "a.cordwood", transform={"image": len}, decode="pil", on_error="skip", progress=told)
    assert_type(packed, cw.Packed)
    assert_type(cw.pack(source, "a.cordwood", limit=5), cw.Estimate)
    assert_type(cw.pack(source, "a.cordwood", limit=5, goal="small").verdict, str)
    assert_type(cw.pack(source, "a.cordwood", limit=limit), cw.Packed | cw.Estimate)
    assert_type(cw.cached(source, "a.cordwood", goal="fast", frames="all"), cw.Dataset)
    assert_type(cw.merge(["a.cordwood", "b.cordwood"], "all.cordwood"), cw.Merged)
    assert_type(cw.export("all.cordwood", "out", to="cord", goal="fast"), cw.Exported)
    return packed


def feeding(ds: cw.Dataset) -> None:
    steps = [cw.augment.RandomResizedCrop(96), cw.augment.RandomFlip()]
    loader = cw.Loader(
        ds,
        batch_size=32,
        shuffle=True,
        augment={"image": steps},
        collate={"tokens": ("pad", -1), "boxes": "list"},
        memory="ram",
        threads="auto",
        on_damage="skip",
    )
    for batch in loader:
        padded: cw.Padded = batch["tokens"]
        print(padded.mask)
    assert_type(loader.stats(), cw.LoaderStats)
    rows = torch.utils.data.DataLoader(ds, batch_size=32)
    assert_type(cw.prefetch(rows, device="cuda"), cw.Prefetched[Any])
    assert_type(cw.prefetch([1, 2]), cw.Prefetched[int])


def diagnosing(model: torch.nn.Module) -> cw.Comparison:
    timer = cw.Timer(sync=True)

    @timer
    def train(epochs: int) -> float:
        return 0.5 * epochs

    with cw.diagnose(model, steps=50) as d:
        assert_type(train(3), float)
    assert_type(d.report, cw.Report)
    return cw.Report.load("before.json").compare(d.report)


def codecs(array: npt.NDArray[np.float32], goal: cw.codecs.Goal) -> int:
    plan = cw.codecs.plan([array], goal)
    assert_type(plan, cw.codecs.Plan)
    frame = cw.codecs.encode(array, plan)
    assert_type(cw.codecs.frame_info(frame), cw.codecs.FrameInfo)
    back = np.empty_like(array)
    cw.codecs.decode_into(cw.codecs.encode_many([array], "small"), [back])
    return int(cw.codecs.decode(frame, normalize=cw.codecs.Normalize([0.5], [0.5])).sum())


def errors() -> list[type[cw.CordwoodError]]:
    assert issubclass(cw.UnsafePickleError, cw.errors.CordwoodError)
    print(cw.__version__)
    kinds = [cw.UsageError, cw.FormatError, cw.StorageError, cw.FeedError, cw.PackError, cw.DoctorError]
    return [*kinds, cw.TensorNameError]


def mistakes(ds: cw.Dataset, word: str) -> None:
    print(cw.pakc)  # type: ignore[attr-defined]
    cw.pack("a", "b", goal="smal")  # type: ignore[call-overload]
    cw.pack("a", "b", on_error="ignore")  # type: ignore[call-overload]
    cw.pack("a", "b", decode="numpy")  # type: ignore[call-overload]
    cw.pack("a", "b", limit=5, num_workers=2)  # type: ignore[call-overload]
    print(cw.pack("a", "b").verdict)  # type: ignore[attr-defined]
    cw.cached("a", "b", goal="smal")  # type: ignore[arg-type]
    cw.save([], "x.cord", goal="tiny")  # type: ignore[call-overload]
    cw.save([], "x.pt", format="npy")  # type: ignore[call-overload]
    cw.save([], "x.pt").result()  # type: ignore[attr-defined]
    cw.export("a", "b", to="npy")  # type: ignore[arg-type]
    cw.Writer("a", "tiny")  # type: ignore[arg-type]
    cw.Writer("a", mode="w")  # type: ignore[arg-type]
    cw.Field(store_as="int8")  # type: ignore[arg-type]
    cw.Loader(ds, memory="disk")  # type: ignore[arg-type]
    cw.Loader(ds, threads="all")  # type: ignore[arg-type]
    cw.Loader(ds, on_damage="ignore")  # type: ignore[arg-type]
    cw.Loader(ds, collate={"tokens": "stack"})  # type: ignore[dict-item]
    cw.codecs.encode(np.zeros(3), "tiny")  # type: ignore[arg-type]
    cw.codecs.plan(np.zeros(3), word)  # type: ignore[arg-type]
    ds["image"]  # type: ignore[call-overload]
    print(ds[1:3].columns)  # type: ignore[attr-defined]
