"""What the doctor's timers take themselves, measured here and now."""

from time import perf_counter_ns

from cordwood.doctor.clock import FORWARD, PhaseClock

_TIMES = 2000
_BORDER_ENTRIES = 4  # the end of a step is worth about this many entries


def cost_of_timers(entered: int, nested: int, steps: int) -> float:
    """Milliseconds a step, for so many entered phases and calls that were passed through, in all."""
    if not steps:
        return 0.0
    entry, passing = _entry_ns(), _passing_ns()
    return ((entered + _BORDER_ENTRIES * steps) * entry + nested * passing) / steps / 1e6


def _entry_ns() -> float:
    clock = PhaseClock()
    best = float("inf")
    for _ in range(5):
        start = perf_counter_ns()
        for _ in range(_TIMES):
            clock.is_training_thread()
            clock.enter(FORWARD)
            clock.leave()
        best = min(best, (perf_counter_ns() - start) / _TIMES)
    return best


def _passing_ns() -> float:
    """A call through a wrapper with arbitrary arguments, beyond a plain call."""

    def plain(*arguments: object, **options: object) -> None:
        return None

    def wrapped(*arguments: object, **options: object) -> None:
        return plain(*arguments, **options)

    best = [float("inf")] * 2
    for _ in range(5):
        for index, function in enumerate((plain, wrapped)):
            start = perf_counter_ns()
            for _ in range(_TIMES):
                function(1)
            best[index] = min(best[index], (perf_counter_ns() - start) / _TIMES)
    return max(0.0, best[1] - best[0])
