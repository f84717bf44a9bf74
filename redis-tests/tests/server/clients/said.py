"""Functions that all Python clients share: they parse commands and format replies.

Each line of standard input is a command: its words in hex, separated by commas. Each line of standard output
is the reply, in the format of `said`.
"""


def read(line):
    """Parses a command. Returns its name as text, as programs pass it, and the other words as bytes."""
    name, *words = [bytes.fromhex(word) for word in line.strip().split(",")]
    return name.decode(), words


def said(reply):
    """Formats a reply: `int 5`, `bytes 6f6b`, `nil`, `error …`; `array 2` and `map 1` before their elements."""
    if isinstance(reply, Exception):
        return "error " + str(reply).encode().hex()
    if reply is None:
        return "nil"
    # Not `isinstance`: a Boolean is also an `int` in Python, and no reply of the module contains a Boolean.
    if type(reply) is int:
        return f"int {reply}"
    if isinstance(reply, bytes):
        return "bytes " + (reply.hex() or "-")
    if isinstance(reply, list):
        return " ".join([f"array {len(reply)}", *map(said, reply)])
    if isinstance(reply, dict):
        return " ".join([f"map {len(reply)}", *(said(part) for pair in reply.items() for part in pair)])
    return f"other {type(reply).__name__}"
