"""Writes src/crawlspace/sync from src/crawlspace/aio, by removing `async` and `await`.

With ``--check``, writes nothing, and fails if a file is out of date.
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).parent / "src/crawlspace/aio"
TARGET = SOURCE.with_name("sync")

#: Replacements in their order: a regular expression and its text.
REPLACED = [
    (r'"""Clients for asyncio, with the same calls\."""', '"""Clients that block. ``generate.py`` writes this folder."""'),
    (r"^import redis as errors\nfrom redis\.asyncio import", "import redis as errors\nfrom redis import"),
    (r"redis\.asyncio", "redis"),
    (r"from asyncio import sleep", "from time import sleep"),
    (r"Coroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"Awaitable\[Any\]", "Any"),
    (r" Awaitable,| Coroutine,", ""),
    (r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"AsyncGenerator", "Generator"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclose\b", "close"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r" With asyncio, put the loop into\n +``async with``, so that this happens before the next statement\.", ""),
]


def synchronous(source: str) -> str:
    """Returns the source without asyncio."""
    for pattern, text in REPLACED:
        source = re.sub(pattern, text, source, flags=re.MULTILINE)
    return source


def main() -> None:
    """Writes or checks the files."""
    outdated = []
    for path in sorted(SOURCE.glob("*.py")):
        text = synchronous(path.read_text())
        target = TARGET / path.name
        if not target.exists() or target.read_text() != text:
            outdated.append(target.name)
            if "--check" not in sys.argv:
                TARGET.mkdir(exist_ok=True)
                target.write_text(text)
    if "--check" in sys.argv and outdated:
        sys.exit(f"out of date: {', '.join(outdated)}: run python/crawlspace/generate.py")


if __name__ == "__main__":
    main()
