"""Builds the native module; everything else about the package is in pyproject.toml.

Set ``CORDWOOD_SANITIZE=1`` for a build with the address and undefined-behaviour sanitizers (``make fuzz`` does).
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/cordwood/native")
SANITIZE = os.environ.get("CORDWOOD_SANITIZE", "0") not in ("", "0")


def blosc2_home() -> Path:
    """The folder of blosc2's wheel, found without importing it: the import is slow and pulls NumPy in."""
    spec = importlib.util.find_spec("blosc2")
    places = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    for place in places:
        if (place / "lib" / "libblosc2.a").is_file():
            return place
    looked_in = ", ".join(map(str, places)) or "blosc2 is not installed"
    sys.exit(
        f"cordwood: lib/libblosc2.a was not found ({looked_in}). Build with pip, which fetches blosc2's wheel into "
        "an isolated environment, or install blosc2 from its wheel before you build without isolation."
    )


def native_module() -> Extension:
    """The extension ``cordwood.native._native``: the stable ABI of CPython 3.11, blosc2 linked statically."""
    home = blosc2_home()
    # No -march: code that needs more than the baseline asks for it function by function and is chosen at run time.
    # No contraction into fused multiply-add, so that the same floats come out on every machine.
    compile_flags = ["-std=c11", "-fno-strict-aliasing", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra"]
    # torch and others carry a zstd of their own: the archive's symbols must neither be seen outside nor be replaced.
    if sys.platform == "darwin":
        link_flags = ["-Wl,-exported_symbol,_PyInit__native"]
    else:
        link_flags = ["-Wl,--exclude-libs,ALL"]
    if SANITIZE:
        checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
        compile_flags += ["-O1", "-g", "-fno-omit-frame-pointer", *checks]
        link_flags += checks
    else:
        compile_flags += ["-O3"]
    return Extension(
        "cordwood.native._native",
        sources=sorted(str(path) for path in NATIVE.rglob("*.c")),
        depends=sorted(str(path) for pattern in ("*.h", "*.inc") for path in NATIVE.rglob(pattern)),
        include_dirs=[*sorted({str(path.parent) for path in NATIVE.rglob("*.h")}), str(home / "include")],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        extra_objects=[str(home / "lib" / "libblosc2.a")],
        libraries=["pthread", "m"],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
    )


def readme_for_index() -> str:
    """README.md as a package index shows it, away from the files beside it.

    The project has no address yet that relative links could lead to. So a relative link becomes its text, and relative
    pictures, lines that are one relative link, and the list of the documentation are left out.
    """
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r'<img src="(?!https?:)[^>]*>\n*', "", text)
    text = re.sub(r"(?m)^## Read on\n(?:\n|\*.*\n)*|^\[[^\]]*\]\((?!https?:|#)[^)]*\)\n\n", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)", r"\1", text)


if sys.byteorder != "little":
    sys.exit("cordwood: this machine is big-endian; files and native code are little-endian, so it is not supported.")
if os.name != "posix":
    sys.exit(f"cordwood: the native module is built on Linux and macOS; {sys.platform} is not supported.")

setup(
    long_description=readme_for_index(),
    long_description_content_type="text/markdown",
    ext_modules=[native_module()],
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        # A folder of its own: setuptools would take an up-to-date object of the ordinary build for a sanitized one.
        "build": {"build_base": "build/sanitize" if SANITIZE else "build"},
    },
)
