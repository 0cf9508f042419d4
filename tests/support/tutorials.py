"""Run the commands of a tutorial in order, as somebody who has nothing yet, and compare what they print.

python -m tests.support.tutorials docs/tutorials/officer.md    # writes down anew what its commands print
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.support.guides import run
from tests.support.waiting import free_port

STEP = re.compile(r"```bash\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
END = "-- end of step --"
PORT = "8000"
"""The port of services in tutorials; runs take one that is free."""


def steps(page: str) -> list[tuple[str, str | None]]:
    """Return the commands of each step, and what the page says that they print; None if it shows nothing."""
    return [(commands, shown or None) for commands, shown in STEP.findall(page)]


def printed(page: str, folder: Path) -> list[str]:
    """Return what each step prints; all run in one shell, which stops at the first command that fails."""
    commands = "".join(f"{one}\necho '{END}'\n" for one, _ in steps(page))
    port = str(free_port())
    said = run(f"exec 2>&1\n{commands.replace(PORT, port)}", folder, folder, timeout_seconds=560.0)
    told = said.replace(f":{port}", f":{PORT}")
    return [part.removeprefix("\n") for part in told.split(END)][:-1]


def likeness(text: str) -> list[str]:
    """Return the lines without what differs from run to run: numbers, digests, times, links, widths of tables."""
    kept = []
    for line in text.splitlines():
        plain = re.sub(r"[─━┏┓┗┛┡┩└┘╇┳┴┬┼]+", " ", line)
        plain = re.sub(r"(?<=\?link=)[\w-]{43}\b", "0", plain)
        plain = re.sub(r"\b[0-9a-f]{12,}\b|\bptk_\w+\b|(?<![\w.])-?\d[\d:.,T+e-]*", "0", plain)
        if plain := " ".join(plain.split()):
            kept.append(plain)
    return kept


def rewritten(page: str, outputs: list[str]) -> str:
    """Return the page with what its steps print now, where it shows anything."""
    left = iter(outputs)

    def step(found: re.Match[str]) -> str:
        now = next(left)
        if found[2] is None:
            return found[0]
        shown = "\n".join(line.rstrip() for line in now.strip("\n").splitlines())
        return f"```bash\n{found[1]}```\n\n```text\n{shown}\n```\n"

    return STEP.sub(step, page)


def main(pages: list[str]) -> int:
    """Run each page in a folder of its own, and write down what it prints."""
    for name in pages:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(rewritten(path.read_text(), printed(path.read_text(), Path(folder))))
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
