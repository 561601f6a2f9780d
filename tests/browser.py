"""A headless browser over the DevTools protocol: opens a page, tells what it drew, said, and asked the network for.

Protocol: https://chromedevtools.github.io/devtools-protocol/. The only user of ``websockets``.
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # containers have none to offer; what is opened is our own file
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--remote-debugging-port=0",
)
PATIENCE_S = 300


def installed() -> str | None:
    """The browser's program, where there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """One page. Events that arrive while an answer is awaited are kept."""

    def __init__(self, address: str) -> None:
        from websockets.sync.client import connect

        self.socket = connect(address, max_size=None, proxy=None)
        self.calls = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self.wire = self.socket.__enter__()
        return self

    def listen(self) -> Self:
        """Hear of what a page does."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.__exit__(kind, error, trace)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        self.calls += 1
        self.wire.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            said = json.loads(self.wire.recv(timeout=PATIENCE_S))
            if said.get("id") == self.calls:
                assert "error" not in said, (method, said["error"])
                return dict(said["result"])
            self.events.append(said)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def open(self, path: Path, width: int, *, dark: bool = False, media: str = "") -> None:
        """Open a file without a network, as wide as that, and wait until its charts are drawn."""
        self.events.clear()
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.resize(width)
        self.emulate(dark=dark, media=media)
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE_S
        while not self.run("document.readyState === 'complete' && 'drawn' in window"):
            assert time.monotonic() < end, "the page does not come to its end"
            time.sleep(0.05)
        self.run("window.drawn.then(() => null)")

    def resize(self, width: int) -> None:
        """Another width of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )

    def emulate(self, *, dark: bool = False, media: str = "") -> None:
        """The reader's ground, and paper."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def point(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def pdf(self) -> bytes:
        """The page on A4."""
        found = self.call("Page.printToPDF", preferCSSPageSize=True)
        return base64.b64decode(found["data"])

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = (
            each["params"]["request"]["url"] for each in self.events if each["method"] == "Network.requestWillBeSent"
        )
        return list(sent)

    @property
    def complaints(self) -> list[str]:
        """Errors, and what the page or the browser says in the console."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(each["params"])[:500] for each in self.events if each["method"] in kinds]


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """A browser with one page, ended at the end."""
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            port = profile / "DevToolsActivePort"
            end = time.monotonic() + PATIENCE_S
            while not port.exists() or len(port.read_text().split()) < 2:
                assert process.poll() is None, "the browser ended at its start"
                assert time.monotonic() < end, "the browser does not start"
                time.sleep(0.05)
            number, path = port.read_text().split()
            with Tab(f"ws://127.0.0.1:{number}{path}") as whole:
                page = whole.call("Target.createTarget", url="about:blank")["targetId"]
            with Tab(f"ws://127.0.0.1:{number}/devtools/page/{page}") as tab:
                yield tab.listen()
        finally:
            process.terminate()
