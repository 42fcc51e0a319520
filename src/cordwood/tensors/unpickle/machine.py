"""Runs a pickle without Python's unpickler: checks every opcode, and leaves code to the caller.

::

    root = Machine(data, hooks, "data.pkl").run()

Python's own unpickler imports and calls what the bytes say, and can be made to reserve gigabytes by a few of them. This
one only moves values on a stack. Whatever would reach beyond plain values (a global, a call, a new object, an
object's state, a persistent id) is handed to `PickleHooks`: those of `describe` describe it, for looking into a file,
those of `allowlist` allow a short list. It also records where in the bytes each item of a tuple was written, so that a
file can be rewritten without being understood.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from cordwood.common.resources import physical_memory
from cordwood.common.text import RefusedPickle, reason_of
from cordwood.errors import CordwoodError, FormatError, Reason
from cordwood.tensors.unpickle.hash_guard import KeyGuard
from cordwood.tensors.unpickle.opcode_handlers import LONGEST_NAME, OPCODES, STOP, WEIGHTS
from cordwood.tensors.unpickle.work_budget import FREE

_LARGE = 4096  # bytes of one value from which they are counted


class PickleHooks(Protocol):
    """What a pickle may ask for beyond plain values."""

    def find_global(self, module: str, name: str) -> Any:
        """The value of an imported name."""

    def call(self, function: Any, arguments: Any) -> Any:
        """The result of a function (REDUCE)."""

    def make(self, cls: Any, arguments: Any, keywords: Any) -> Any:
        """A new instance, by ``__new__`` (NEWOBJ)."""

    def build(self, instance: Any, state: Any) -> Any:
        """The instance after it got its state (BUILD)."""

    def persistent(self, identity: Any) -> Any:
        """What a persistent id stands for: in torch's files, a storage."""

    def extend(self, target: Any, items: list[Any]) -> None:
        """Add to an object that is not a plain list (APPEND, APPENDS) or set (ADDITEMS)."""

    def update(self, target: Any, items: list[Any]) -> None:
        """Set items, keys and values in turns, of an object that is not a plain dict (SETITEM, SETITEMS)."""


class Spanned(tuple[Any, ...]):
    """A tuple that knows where in the pickle its items were written: item ``i`` in ``starts[i]:starts[i + 1]``."""

    starts: tuple[int, ...]


def plain_tuple(items: Sequence[Any], starts: Sequence[int], end: int) -> tuple[Any, ...]:
    """The tuple alone."""
    return tuple(items)


def spanned_tuple(items: Sequence[Any], starts: Sequence[int], end: int) -> Spanned:
    """The tuple, and the positions of its items."""
    made = Spanned(items)
    made.starts = (*starts, end)
    return made


class Machine:
    """One run over one pickle."""

    def __init__(
        self,
        data: bytes,
        hooks: PickleHooks,
        where: str,
        *,
        start: int = 0,
        encoding: str = "utf-8",
        tuples: Callable[[Sequence[Any], Sequence[int], int], tuple[Any, ...]] = plain_tuple,
        room: int | None = None,
    ) -> None:
        self.data = data
        self.hooks = hooks
        self.where = where
        self.encoding = encoding
        self.position = start
        self.opcode_at = start
        self.first = start
        self.stack: list[Any] = []
        self.starts: list[int] = []
        self.marks: list[tuple[list[Any], list[int], int]] = []
        self.memo: dict[int, Any] = {}
        self.puts: list[tuple[int, int]] = []  # (position, index)
        self.gets: list[tuple[int, int]] = []
        self.frames: list[int] = []
        self.protocol = 0
        self.tuples = tuples
        self.keys = KeyGuard(len(data) - start)
        self.room = FREE + (physical_memory() if room is None else room)  # bytes that values may take

    def run(self) -> Any:
        """The object; `position` is then the first byte behind the pickle."""
        data, size = self.data, len(self.data)
        opcodes, weights = OPCODES, WEIGHTS
        try:
            while True:
                at = self.opcode_at = self.position
                if at >= size:
                    self.fail("it ends before its STOP opcode", Reason.TRUNCATED)
                opcode = data[at]
                if opcode == STOP:
                    break
                handler = opcodes[opcode]
                if handler is None:
                    self.fail(f"opcode 0x{opcode:02x}, which no file of torch's has")
                self.room -= weights[opcode]
                if self.room < 0:
                    self.fail("its values need more memory than the limit; raise it with limit=...", Reason.LIMIT)
                self.position = at + 1
                handler(self)
        except (CordwoodError, OSError):
            raise
        except RefusedPickle as error:
            self.fail(str(error))
        except (IndexError, struct.error):
            # No opcode has more than 9 bytes before its text: further from the end it is the stack that is short.
            self.fail("an opcode asks for more than there is", Reason.TRUNCATED if self.position + 9 > size else 0)
        except Exception as error:  # whatever torch and Python say to values that make no sense
            self.fail(f"{type(error).__name__}: {reason_of(error)}", cause=error)
        self.position += 1
        if len(self.stack) != 1 or self.marks:
            self.fail(f"{len(self.stack)} values and {len(self.marks)} open marks are left at its end, not one value")
        return self.stack[0]

    def fail(self, found: str, reason: int = 0, cause: BaseException | None = None) -> NoReturn:
        """Refuse the pickle, saying where."""
        raise FormatError(
            f"{self.where}: not a pickle that can be read: {found} (at byte {self.opcode_at}); the file is damaged",
            reason,
        ) from cause

    def push(self, value: Any) -> None:
        self.stack.append(value)
        self.starts.append(self.opcode_at)

    def take(self, count: int) -> bytes:
        """The next bytes, and move behind them."""
        begin = self.position
        end = begin + count
        if end > len(self.data):
            self.fail(f"a value of {count} bytes, with {len(self.data) - begin} left", Reason.TRUNCATED)
        if count > _LARGE:
            self.room -= 4 * count  # text may take four bytes a character
        self.position = end
        return self.data[begin:end]

    def line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            self.fail("a line that does not end", Reason.TRUNCATED)
        if end - self.position > LONGEST_NAME:
            self.fail(f"a name of {end - self.position} bytes")
        text = self.data[self.position : end].decode()
        self.position = end + 1
        return text

    def pop_mark(self) -> tuple[list[Any], list[int], int]:
        """What was pushed since the last mark, and where the mark stands."""
        if not self.marks:
            self.fail("the end of a group that was never begun")
        items, starts = self.stack, self.starts
        self.stack, self.starts, begin = self.marks.pop()
        return items, starts, begin

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]
        self.puts.append((self.opcode_at, index))

    def recall(self, index: int) -> None:
        if index not in self.memo:
            self.fail(f"value {index} of the memo, which was never put there")
        self.gets.append((self.opcode_at, index))
        self.push(self.memo[index])

    def add(self, target: Any, items: list[Any]) -> None:
        if type(target) is list:
            target.extend(items)
        elif type(target) is set:
            self.keys.check(items, target)
            target.update(items)
        else:
            self.hooks.extend(target, items)

    def set(self, target: Any, items: list[Any]) -> None:
        if len(items) % 2:
            self.fail("a key without a value")
        self.keys.check(items[::2], target)
        if type(target) is dict:
            for index in range(0, len(items), 2):
                target[items[index]] = items[index + 1]
        else:
            self.hooks.update(target, items)
