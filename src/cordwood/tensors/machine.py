"""Run a pickle without Python's unpickler: every opcode is checked, and what to do about code is the caller's choice.

::

    root = Machine(data, world, "data.pkl").run()

Python's own unpickler imports and calls what the bytes say, and can be made to reserve gigabytes by a few of them. This
one only moves values on a stack. Whatever would reach beyond plain values (a global, a call, a new object, an
object's state, a persistent id) is handed to a `World`: one describes it, for looking into a file (`inert`), the other
allows a short list (`allowed`). It also tells where in the bytes each item of a tuple was written, so that a file can
be rewritten without being understood.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from cordwood.codecs.frame import physical_memory
from cordwood.errors import CordwoodError, FormatError
from cordwood.tensors.brief import Refused, reason_of
from cordwood.tensors.effort import FREE
from cordwood.tensors.keyguard import KeyGuard

# Python itself nests some thousand levels deep before it gives up; no checkpoint comes near.
DEEPEST = 2000
_LONGEST_NAME = 1000  # of a global; it is looked at often
_LARGE = 4096  # bytes of one value from which they are counted
_TRUNCATED, _LIMIT = 1, 26  # numbers of reasons

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_F64 = struct.Struct(">d")


class World(Protocol):
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
        world: World,
        where: str,
        *,
        start: int = 0,
        encoding: str = "utf-8",
        tuples: Callable[[Sequence[Any], Sequence[int], int], tuple[Any, ...]] = plain_tuple,
        room: int | None = None,
    ) -> None:
        self.data = data
        self.world = world
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
        opcodes, weights = _OPCODES, _WEIGHTS
        try:
            while True:
                at = self.opcode_at = self.position
                if at >= size:
                    self.fail("it ends before its STOP opcode", _TRUNCATED)
                opcode = data[at]
                if opcode == _STOP:
                    break
                handler = opcodes[opcode]
                if handler is None:
                    self.fail(f"opcode 0x{opcode:02x}, which no file of torch's has")
                self.room -= weights[opcode]
                if self.room < 0:
                    self.fail("its values need more memory than the limit; raise it with limit=...", _LIMIT)
                self.position = at + 1
                handler(self)
        except (CordwoodError, OSError):
            raise
        except Refused as error:
            self.fail(str(error))
        except (IndexError, struct.error):
            # No opcode has more than 9 bytes before its text: further from the end it is the stack that is short.
            self.fail("an opcode asks for more than there is", _TRUNCATED if self.position + 9 > size else 0)
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
            self.fail(f"a value of {count} bytes, with {len(self.data) - begin} left", _TRUNCATED)
        if count > _LARGE:
            self.room -= 4 * count  # text may take four bytes a character
        self.position = end
        return self.data[begin:end]

    def line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            self.fail("a line that does not end", _TRUNCATED)
        if end - self.position > _LONGEST_NAME:
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
            self.world.extend(target, items)

    def set(self, target: Any, items: list[Any]) -> None:
        if len(items) % 2:
            self.fail("a key without a value")
        self.keys.check(items[::2], target)
        if type(target) is dict:
            for index in range(0, len(items), 2):
                target[items[index]] = items[index + 1]
        else:
            self.world.update(target, items)


def _mark(m: Machine) -> None:
    if len(m.marks) >= DEEPEST:
        m.fail(f"values nested more than {DEEPEST} deep")
    m.marks.append((m.stack, m.starts, m.opcode_at))
    m.stack, m.starts = [], []


def _pop(m: Machine) -> None:
    # As Python does: with nothing pushed since a mark, it is the mark that goes.
    if m.stack:
        m.stack.pop()
        m.starts.pop()
    else:
        m.pop_mark()


def _duplicate(m: Machine) -> None:
    m.push(m.stack[-1])


def _constant(value: Any) -> Callable[[Machine], None]:
    def push(m: Machine) -> None:
        m.stack.append(value)
        m.starts.append(m.opcode_at)

    return push


def _new(kind: Callable[[], Any]) -> Callable[[Machine], None]:
    return lambda m: m.push(kind())


def _number(layout: struct.Struct) -> Callable[[Machine], None]:
    def push(m: Machine) -> None:
        (value,) = layout.unpack_from(m.data, m.position)
        m.position += layout.size
        m.stack.append(value)
        m.starts.append(m.opcode_at)

    return push


def _byte(m: Machine) -> None:
    m.stack.append(m.data[m.position])
    m.starts.append(m.opcode_at)
    m.position += 1


def _length(m: Machine, width: int) -> int:
    return int.from_bytes(m.take(width), "little")


def _long(width: int) -> Callable[[Machine], None]:
    return lambda m: m.push(int.from_bytes(m.take(_length(m, width)), "little", signed=True))


def _text(width: int) -> Callable[[Machine], None]:
    def push(m: Machine) -> None:
        m.push(str(m.take(_length(m, width)), "utf-8", "surrogatepass"))

    return push


def _old_text(width: int) -> Callable[[Machine], None]:
    """Python 2's strings: text as far as they are text."""

    def push(m: Machine) -> None:
        raw = m.take(_length(m, width))
        try:
            m.push(raw if m.encoding == "bytes" else raw.decode(m.encoding))
        except UnicodeDecodeError:
            m.push(raw)

    return push


def _bytes(width: int) -> Callable[[Machine], None]:
    return lambda m: m.push(m.take(_length(m, width)))


def _bytearray(m: Machine) -> None:
    m.push(bytearray(m.take(_length(m, 8))))


def _tuple(m: Machine) -> None:
    items, starts, begin = m.pop_mark()
    m.stack.append(m.tuples(items, starts, m.opcode_at))
    m.starts.append(begin)


def _short_tuple(count: int) -> Callable[[Machine], None]:
    def push(m: Machine) -> None:
        if len(m.stack) < count:
            m.fail(f"a tuple of {count} with {len(m.stack)} values at hand")
        made = m.tuples(m.stack[-count:], m.starts[-count:], m.opcode_at)
        m.stack[-count:] = [made]
        del m.starts[len(m.starts) - count + 1 :]

    return push


def _frozenset(m: Machine) -> None:
    items, _, begin = m.pop_mark()
    m.keys.check(items)
    m.stack.append(frozenset(items))
    m.starts.append(begin)


def _list(m: Machine) -> None:
    items, _, begin = m.pop_mark()
    m.stack.append(items)
    m.starts.append(begin)


def _dict(m: Machine) -> None:
    items, _, begin = m.pop_mark()
    m.stack.append({})
    m.starts.append(begin)
    m.set(m.stack[-1], items)


def _append(m: Machine) -> None:
    item = m.stack.pop()
    m.starts.pop()
    m.add(m.stack[-1], [item])


def _appends(m: Machine) -> None:
    items, _, _ = m.pop_mark()
    m.add(m.stack[-1], items)


def _set_item(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    del m.starts[-2:]
    m.set(m.stack[-1], [key, value])


def _set_items(m: Machine) -> None:
    items, _, _ = m.pop_mark()
    m.set(m.stack[-1], items)


def _put(width: int) -> Callable[[Machine], None]:
    return lambda m: m.remember(_length(m, width))


def _get(width: int) -> Callable[[Machine], None]:
    return lambda m: m.recall(_length(m, width))


def _memoize(m: Machine) -> None:
    m.remember(len(m.memo))


def _global(m: Machine) -> None:
    module = m.line()
    m.push(m.world.find_global(module, m.line()))


def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack[-1]
    m.starts.pop()
    if type(name) is not str or type(module) is not str:
        m.fail("a global whose name is not text")
    if len(name) + len(module) > _LONGEST_NAME:
        m.fail(f"a global whose name has {len(name) + len(module)} characters")
    m.stack[-1] = m.world.find_global(module, name)


def _reduce(m: Machine) -> None:
    arguments = m.stack.pop()
    m.starts.pop()
    if not isinstance(arguments, tuple):
        m.fail(f"a call with a {type(arguments).__name__} for arguments")
    m.stack[-1] = m.world.call(m.stack[-1], arguments)


def _new_object(m: Machine) -> None:
    arguments = m.stack.pop()
    m.starts.pop()
    if not isinstance(arguments, tuple):
        m.fail(f"a new object with a {type(arguments).__name__} for arguments")
    m.stack[-1] = m.world.make(m.stack[-1], arguments, {})


def _new_object_keywords(m: Machine) -> None:
    keywords, arguments = m.stack.pop(), m.stack.pop()
    del m.starts[-2:]
    if not isinstance(arguments, tuple) or type(keywords) is not dict:
        m.fail("a new object whose arguments are not a tuple and a dict")
    m.stack[-1] = m.world.make(m.stack[-1], arguments, keywords)


def _build(m: Machine) -> None:
    state = m.stack.pop()
    m.starts.pop()
    m.stack[-1] = m.world.build(m.stack[-1], state)


def _persistent(m: Machine) -> None:
    m.stack[-1] = m.world.persistent(m.stack[-1])


def _protocol(m: Machine) -> None:
    m.protocol = m.take(1)[0]
    if m.protocol > 5:
        m.fail(f"pickle protocol {m.protocol}, and the newest one known is 5")


def _frame(m: Machine) -> None:
    m.frames.append(m.opcode_at)
    m.take(8)


_STOP = ord(".")
_OPCODES: list[Callable[[Machine], None] | None] = [None] * 256
_HANDLERS: dict[bytes, Callable[[Machine], None]] = {
    b"(": _mark,
    b"0": _pop,
    b"1": lambda m: void(m.pop_mark()),
    b"2": _duplicate,
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b")": _constant(()),
    b"]": _new(list),
    b"}": _new(dict),
    b"\x8f": _new(set),
    b"K": _byte,
    b"M": _number(_U16),
    b"J": _number(_I32),
    b"G": _number(_F64),
    b"\x8a": _long(1),
    b"\x8b": _long(4),
    b"\x8c": _text(1),
    b"X": _text(4),
    b"\x8d": _text(8),
    b"U": _old_text(1),
    b"T": _old_text(4),
    b"C": _bytes(1),
    b"B": _bytes(4),
    b"\x8e": _bytes(8),
    b"\x96": _bytearray,
    b"t": _tuple,
    b"\x85": _short_tuple(1),
    b"\x86": _short_tuple(2),
    b"\x87": _short_tuple(3),
    b"\x91": _frozenset,
    b"l": _list,
    b"d": _dict,
    b"a": _append,
    b"e": _appends,
    b"\x90": _appends,
    b"s": _set_item,
    b"u": _set_items,
    b"q": _put(1),
    b"r": _put(4),
    b"\x94": _memoize,
    b"h": _get(1),
    b"j": _get(4),
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _reduce,
    b"\x81": _new_object,
    b"\x92": _new_object_keywords,
    b"b": _build,
    b"Q": _persistent,
    b"\x80": _protocol,
    b"\x95": _frame,
}


def void(_: Any) -> None:
    """Drop a value."""


# Bytes that one opcode may make Python reserve: tensors and descriptions, sets, other containers, the rest.
_HEAVY = {b"R": 1024, b"\x81": 1024, b"\x92": 1024, b"b": 512, b"Q": 1024, b"\x8f": 320, b"(": 192}
_WEIGHTS = [128] * 256
for _name, _handler in _HANDLERS.items():
    _OPCODES[_name[0]] = _handler
    _WEIGHTS[_name[0]] = _HEAVY.get(_name, 320 if _name in b"]})\x85\x86\x87tld\x91q\x94rhj" else 128)
