"""What a person sees who presses Tab: in a real interactive bash, on a terminal."""

import os
import pty
import select
import shutil
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

ROOT = Path(__file__).parents[3]
PROGRAM = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom sim.cli import main\nmain()\n"


class Terminal:
    """An interactive bash with the completion script sourced."""

    def __init__(self, folder: Path) -> None:
        program = folder / "bin" / "windtunnel"
        program.parent.mkdir()
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (folder / "mine.yaml").write_text("")
        (folder / "notes.txt").write_text("")
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            path = f"{program.parent}:{os.environ['PATH']}"
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "PATH": path, "PS1": "ready> "})  # noqa: S606
        self.pid = pid
        self.type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'\n")
        self.type('eval "$(windtunnel completion bash)"; echo so""urced\n')
        self.see("sourced")

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def see(self, wanted: str) -> str:
        """What is printed until a text appears."""
        seen, end = "", time.monotonic() + 300
        while wanted not in seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        assert wanted in seen, seen
        return seen

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    made = Terminal(tmp_path_factory.mktemp("bash"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("run smo\t", "run smoke "),
        ("run mi\t", "run mine.yaml "),
        ("run bi\t", "run bin/"),
        ("run s\t\t", "slime_multi_turn"),
        ("run smoke --arm st\t", "--arm sticky_least_loaded "),
        ("run smoke --set wor\t", "--set workload."),
        ("run smoke --set fleet.engines\t", "--set fleet.engines="),
        ("check smoke --set router.policy.ki\t", "--set router.policy.kind="),
        ("policies sglang.cons\t", "policies sglang.consistent_hashing "),
        ("profiles h100-80gb_llama-3-70b_tp8\t", "profiles h100-80gb_llama-3-70b_tp8 "),
        ("run smoke --jo\t", "--jobs "),
    ],
)
def test_tab(terminal: Terminal, typed: str, seen: str) -> None:
    """The line that is typed goes on as it should; a value that is not whole is not closed by a space."""
    terminal.type(f"windtunnel {typed}")
    shown = terminal.see(seen)
    assert "notes.txt" not in shown
    terminal.type("\x15\n")  # clears the line
    terminal.see("ready> ")
