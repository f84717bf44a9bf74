"""What all clients in Python say of replies.

A line of standard input is a command, its words in hex, with commas between. A line of standard output is its
reply, see `said`.
"""


def read(line):
    """A command: its name as text, as a program has it; the rest may be any bytes."""
    name, *words = [bytes.fromhex(word) for word in line.strip().split(",")]
    return name.decode(), words


def said(reply):
    """A reply in words: `int 5`, `bytes 6f6b`, `nil`, `error …`; `array 2` and `map 1` before what is in them."""
    if isinstance(reply, Exception):
        return "error " + str(reply).encode().hex()
    if reply is None:
        return "nil"
    # A truth value would be an integer for Python; there is none in a reply of ours.
    if type(reply) is int:
        return f"int {reply}"
    if isinstance(reply, bytes):
        return "bytes " + (reply.hex() or "-")
    if isinstance(reply, list):
        return " ".join([f"array {len(reply)}", *map(said, reply)])
    if isinstance(reply, dict):
        return " ".join([f"map {len(reply)}", *(said(part) for pair in reply.items() for part in pair)])
    return f"other {type(reply).__name__}"
