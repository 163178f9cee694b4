"""Is the server ready? Watches its log and, once its port is open, asks it as little as possible.

SGLang opens its port after weights, pool and graphs, then answers a warm-up request of its own,
then writes a line that it is ready (http_server.py:1637 @0.5.6 to :2600 @0.5.23). ``/health``
generates a token and fills the log, so it is asked only where that line does not come.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from autotune.engine.ports import is_listening

_FIRED_UP = "The server is fired up and ready to roll"
_PORT_OPEN = re.compile(r"Uvicorn running on|Application startup complete")
_MODEL_INFO = ("/model_info", "/get_model_info")

_CONNECT_EVERY_S = 0.2
_ASK_EVERY_S = 1.0
_REQUEST_S = 30.0  # the slow /health of 0.5.3 and later gives up after 20 s

# Patience for the ready line, then the pace of /health: a log that shows nothing (a high
# --log-level) will not show that line either; a log that shows uvicorn's lines will.
_QUIET_LOG = (1.0, 1.0)
_TALKING_LOG = (60.0, 10.0)

_PROGRESS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Load weight begin"), "loading weights"),
    (re.compile(r"Load weight end.*mem usage=([\d.]+) ?GB"), "weights loaded ({0} GB)"),
    (re.compile(r"KV Cache is allocated.*#tokens: (\d+)"), "KV pool of {0} tokens"),
    (re.compile(r"Capture .*graph.* begin"), "capturing CUDA graphs"),
    (re.compile(r"Capture .*graph.* end"), "CUDA graphs captured"),
    (_PORT_OPEN, "warming up"),
)


class StartupLog:
    """Follows a growing log and tells the stages it shows, each once."""

    def __init__(self, path: Path, announce: Callable[[str], None]) -> None:
        self.fired_up = False
        self.talks = False
        self._path = path
        self._announce = announce
        self._offset = 0
        self._told: set[str] = set()

    def follow(self) -> None:
        """Reads the complete lines that are new."""
        with self._path.open("rb") as file:
            if file.seek(0, 2) < self._offset:
                self._offset = 0  # its middle was left out; what was told is not told again
            file.seek(self._offset)
            text, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(text) + len(newline)
        for line in text.decode(errors="replace").splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        if "server_args=" in line:
            return
        self.fired_up = self.fired_up or _FIRED_UP in line
        self.talks = self.talks or _PORT_OPEN.search(line) is not None
        for pattern, text in _PROGRESS:
            if match := pattern.search(line):
                told = text.format(*(_grouped(group) for group in match.groups()))
                if told not in self._told:
                    self._told.add(told)
                    self._announce(told)


class ReadyProbe:
    """Asks one server whether it is ready; call it often, it keeps its own pace. Close it.

    Args:
        url: base address.
        host: address to connect to.
        port: its port.
        api_key: sent as a bearer token.
    """

    def __init__(self, url: str, host: str, port: int, *, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(
            base_url=url, headers=headers, timeout=_REQUEST_S, trust_env=False
        )
        self._address = (port, host)
        self._answered_at: float | None = None
        self._next_at = 0.0

    def is_ready(self, log: StartupLog) -> bool:
        """True once the server has answered and is warm."""
        now = time.monotonic()
        if self._answered_at is None:
            if now >= self._next_at and self._answers(now):
                self._answered_at = now
            return self._answered_at is not None and log.fired_up
        if log.fired_up:
            return True
        patience_s, pace_s = _TALKING_LOG if log.talks else _QUIET_LOG
        if now < max(self._next_at, self._answered_at + patience_s):
            return False
        self._next_at = now + pace_s
        return self._get("/health")

    def close(self) -> None:
        self._client.close()

    def _answers(self, now: float) -> bool:
        port, host = self._address
        if not is_listening(port, host):
            self._next_at = now + _CONNECT_EVERY_S
            return False
        self._next_at = now + _ASK_EVERY_S
        return any(self._get(path) for path in _MODEL_INFO)

    def _get(self, path: str) -> bool:
        try:
            return self._client.get(path).status_code == 200
        except httpx.HTTPError:
            return False


def _grouped(number: str) -> str:
    return f"{int(number):,}" if number.isdigit() else number
