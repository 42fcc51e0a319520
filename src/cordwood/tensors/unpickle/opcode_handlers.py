"""What each opcode of a pickle does to the machine, and what it may cost."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cordwood.errors import Reason

if TYPE_CHECKING:
    from cordwood.tensors.unpickle.machine import Machine

    Handler = Callable[[Machine], None]

# Python itself nests some thousand levels deep before it gives up; no checkpoint comes near.
DEEPEST = 2000
LONGEST_NAME = 1000  # of a global; it is looked at often

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_F64 = struct.Struct(">d")


def _mark(m: "Machine") -> None:
    if len(m.marks) >= DEEPEST:
        m.fail(f"values nested more than {DEEPEST} deep")
    m.marks.append((m.stack, m.starts, m.opcode_at))
    m.stack, m.starts = [], []


def _pop(m: "Machine") -> None:
    # As Python does: with nothing pushed since a mark, it is the mark that goes.
    if m.stack:
        m.stack.pop()
        m.starts.pop()
    else:
        m.pop_mark()


def _pop_mark(m: "Machine") -> None:
    m.pop_mark()


def _duplicate(m: "Machine") -> None:
    m.push(m.stack[-1])


def _constant(value: Any) -> "Handler":
    def push(m: "Machine") -> None:
        m.stack.append(value)
        m.starts.append(m.opcode_at)

    return push


def _new(kind: Callable[[], Any]) -> "Handler":
    return lambda m: m.push(kind())


def _number(layout: struct.Struct) -> "Handler":
    def push(m: "Machine") -> None:
        (value,) = layout.unpack_from(m.data, m.position)
        m.position += layout.size
        m.stack.append(value)
        m.starts.append(m.opcode_at)

    return push


def _byte(m: "Machine") -> None:
    m.stack.append(m.data[m.position])
    m.starts.append(m.opcode_at)
    m.position += 1


def _length(m: "Machine", width: int) -> int:
    begin = m.position
    m.position = begin + width
    if m.position > len(m.data):
        m.fail(f"a number of {width} bytes, with {len(m.data) - begin} left", Reason.TRUNCATED)
    return int.from_bytes(m.data[begin : m.position], "little")


def _long(width: int) -> "Handler":
    return lambda m: m.push(int.from_bytes(m.take(_length(m, width)), "little", signed=True))


def _text(width: int) -> "Handler":
    def push(m: "Machine") -> None:
        m.push(str(m.take(_length(m, width)), "utf-8", "surrogatepass"))

    return push


def _old_text(width: int) -> "Handler":
    """Python 2's strings: text as far as they are text."""

    def push(m: "Machine") -> None:
        raw = m.take(_length(m, width))
        try:
            m.push(raw if m.encoding == "bytes" else raw.decode(m.encoding))
        except UnicodeDecodeError:
            m.push(raw)

    return push


def _bytes(width: int) -> "Handler":
    return lambda m: m.push(m.take(_length(m, width)))


def _bytearray(m: "Machine") -> None:
    m.push(bytearray(m.take(_length(m, 8))))


def _tuple(m: "Machine") -> None:
    items, starts, begin = m.pop_mark()
    m.stack.append(m.tuples(items, starts, m.opcode_at))
    m.starts.append(begin)


def _short_tuple(count: int) -> "Handler":
    def push(m: "Machine") -> None:
        if len(m.stack) < count:
            m.fail(f"a tuple of {count} with {len(m.stack)} values at hand")
        made = m.tuples(m.stack[-count:], m.starts[-count:], m.opcode_at)
        m.stack[-count:] = [made]
        del m.starts[len(m.starts) - count + 1 :]

    return push


def _frozenset(m: "Machine") -> None:
    items, _, begin = m.pop_mark()
    m.keys.check(items)
    m.stack.append(frozenset(items))
    m.starts.append(begin)


def _list(m: "Machine") -> None:
    items, _, begin = m.pop_mark()
    m.stack.append(items)
    m.starts.append(begin)


def _dict(m: "Machine") -> None:
    items, _, begin = m.pop_mark()
    m.stack.append({})
    m.starts.append(begin)
    m.set(m.stack[-1], items)


def _append(m: "Machine") -> None:
    item = m.stack.pop()
    m.starts.pop()
    m.add(m.stack[-1], [item])


def _appends(m: "Machine") -> None:
    items, _, _ = m.pop_mark()
    m.add(m.stack[-1], items)


def _set_item(m: "Machine") -> None:
    value, key = m.stack.pop(), m.stack.pop()
    del m.starts[-2:]
    m.set(m.stack[-1], [key, value])


def _set_items(m: "Machine") -> None:
    items, _, _ = m.pop_mark()
    m.set(m.stack[-1], items)


def _put_byte(m: "Machine") -> None:
    # A third of all opcodes are this one.
    index = m.data[m.position]
    m.position += 1
    m.memo[index] = m.stack[-1]
    m.puts.append((m.opcode_at, index))


def _put(m: "Machine") -> None:
    m.remember(_length(m, 4))


def _get(width: int) -> "Handler":
    return lambda m: m.recall(_length(m, width))


def _memoize(m: "Machine") -> None:
    m.remember(len(m.memo))


def _global(m: "Machine") -> None:
    module = m.line()
    m.push(m.hooks.find_global(module, m.line()))


def _stack_global(m: "Machine") -> None:
    name, module = m.stack.pop(), m.stack[-1]
    m.starts.pop()
    if type(name) is not str or type(module) is not str:
        m.fail("a global whose name is not text")
    if len(name) + len(module) > LONGEST_NAME:
        m.fail(f"a global whose name has {len(name) + len(module)} characters")
    m.stack[-1] = m.hooks.find_global(module, name)


def _reduce(m: "Machine") -> None:
    arguments = m.stack.pop()
    m.starts.pop()
    if not isinstance(arguments, tuple):
        m.fail(f"a call with a {type(arguments).__name__} for arguments")
    m.stack[-1] = m.hooks.call(m.stack[-1], arguments)


def _new_object(m: "Machine") -> None:
    arguments = m.stack.pop()
    m.starts.pop()
    if not isinstance(arguments, tuple):
        m.fail(f"a new object with a {type(arguments).__name__} for arguments")
    m.stack[-1] = m.hooks.make(m.stack[-1], arguments, {})


def _new_object_keywords(m: "Machine") -> None:
    keywords, arguments = m.stack.pop(), m.stack.pop()
    del m.starts[-2:]
    if not isinstance(arguments, tuple) or type(keywords) is not dict:
        m.fail("a new object whose arguments are not a tuple and a dict")
    m.stack[-1] = m.hooks.make(m.stack[-1], arguments, keywords)


def _build(m: "Machine") -> None:
    state = m.stack.pop()
    m.starts.pop()
    m.stack[-1] = m.hooks.build(m.stack[-1], state)


def _persistent(m: "Machine") -> None:
    m.stack[-1] = m.hooks.persistent(m.stack[-1])


def _protocol(m: "Machine") -> None:
    m.protocol = m.take(1)[0]
    if m.protocol > 5:
        m.fail(f"pickle protocol {m.protocol}, and the newest one known is 5")


def _frame(m: "Machine") -> None:
    m.frames.append(m.opcode_at)
    m.take(8)


STOP = ord(".")
OPCODES: list["Handler | None"] = [None] * 256
_HANDLERS: dict[bytes, "Handler"] = {
    b"(": _mark,
    b"0": _pop,
    b"1": _pop_mark,
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
    b"q": _put_byte,
    b"r": _put,
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


# Bytes that one opcode may make Python reserve: tensors and descriptions, sets, other containers, the rest.
_HEAVY = {b"R": 1024, b"\x81": 1024, b"\x92": 1024, b"b": 512, b"Q": 1024, b"\x8f": 320, b"(": 192}
WEIGHTS = [128] * 256
for _name, _handler in _HANDLERS.items():
    OPCODES[_name[0]] = _handler
    WEIGHTS[_name[0]] = _HEAVY.get(_name, 320 if _name in b"]})\x85\x86\x87tld\x91q\x94rhj" else 128)
