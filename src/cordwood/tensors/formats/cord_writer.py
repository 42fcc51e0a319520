"""Writes a `.cord` file: a zip archive of records encoded by the codecs.

The layout is told in docs/format/tensors.md. Records are written one after the other as they are encoded, and the
manifest that lists them comes last, so that no more than one of them is in memory at a time.
"""

import json
from typing import Any, Final

from cordwood.codecs import Goal
from cordwood.tensors.content.file_content import Content, Scratch
from cordwood.tensors.formats.cord_records import encoded_records
from cordwood.tensors.formats.shared import CORD_MANIFEST_NAME, CORD_MARK_NAME, CORD_PICKLE_NAME, CORD_VERSION, Write
from cordwood.tensors.io.zip_writer import ZipWriter, deflate

MARK: Final = b"A Cordwood tensor file: docs/format/tensors.md\n"
_WORTH_DEFLATING = 4096  # below that, inflating costs more time than reading


def write_cord(content: Content, write: Write, goal: Goal) -> None:
    """The whole archive, forward only."""
    parcel = content.parcel()
    archive = ZipWriter(write)
    archive.add(CORD_MARK_NAME, MARK, align=False)
    scratch = Scratch()
    storages: dict[str, Any] = {}
    for storage in parcel.storages:
        records: list[dict[str, Any]] = []
        for record in encoded_records(storage, goal, scratch):
            name = f"data/{storage.key}.{len(records)}"
            row = {"name": name, "offset": record.offset, "nbytes": record.nbytes, "coding": record.coding}
            if record.crc32c is not None:
                row["crc32c"] = record.crc32c
            records.append(row)
            archive.add(name, record.data, align=record.coding == "raw")
        storages[storage.key] = {"nbytes": storage.nbytes, "records": records}
    _add_text(archive, CORD_PICKLE_NAME, parcel.pickle)
    manifest = {
        "format": "cordwood-tensors",
        "version": list(CORD_VERSION),
        "requires": [],
        "goal": goal,
        "storages": storages,
    }
    _add_text(archive, CORD_MANIFEST_NAME, json.dumps(manifest, separators=(",", ":")).encode())
    archive.finish()


def _add_text(archive: ZipWriter, name: str, data: bytes) -> None:
    """What tells of the tensors repeats itself, and of many small ones it would be larger than they are."""
    if len(data) >= _WORTH_DEFLATING:
        chunks, crc = deflate(data)
        archive.add_deflated(name, chunks, len(data), crc)
    else:
        archive.add(name, data, align=False)
