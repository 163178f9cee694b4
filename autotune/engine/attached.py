"""A server that someone else runs: measured, never started, stopped or flushed."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from autotune.core.trial import Failure
from autotune.engine.ports import is_local, port_of
from autotune.engine.sglang.environment import fakes
from autotune.engine.sglang.readback import effective_settings, fetch_server_info, versions_of
from autotune.errors import LaunchError

_TIMEOUT_S = 10.0


def served_model(url: str, api_key: str | None) -> str:
    """The name under which the server serves its model; ``default`` where it does not say."""
    return str(_model_card(_get(url, "/v1/models", api_key)).get("id") or "default")


def _model_card(document: object) -> dict[str, Any]:
    """The first model of a ``/v1/models`` answer; empty where it has none."""
    try:
        card = document["data"][0]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return {}
    return card if isinstance(card, dict) else {}


def _context_of(card: dict[str, Any]) -> dict[str, int]:
    """The context length as SGLang and vLLM tell it (``max_model_len``), or llama.cpp."""
    meta = card.get("meta")
    told = [card.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None]
    lengths = [length for length in told if isinstance(length, int) and length > 0]
    return {"context_len": lengths[0]} if lengths else {}


class AttachedServer:
    """A running server, read through its information endpoints. Implements ``RunningServer``.

    Args:
        url: base address, with or without a trailing slash.
        api_key: bearer token, or None.

    Raises:
        LaunchError: nothing answers at the address.
    """

    launch_s = 0.0
    stop_trouble = ""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.api_key = api_key
        models = _get(self.url, "/v1/models", api_key)
        if models is None:
            raise LaunchError(
                f"no server answers at {self.url}/v1/models",
                hint="check the address, the port and the API key (AUTOTUNE_API_KEY)",
            )
        info = fetch_server_info(self.url, api_key=api_key) or {}
        simulation = info.get("simulation")
        speed = simulation.get("speed") if isinstance(simulation, dict) else None
        speed = float(speed) if isinstance(speed, int | float) and speed > 0 else None
        self.effective = _context_of(_model_card(models)) | effective_settings(info, "")
        if is_local(self.url):
            self.effective |= fakes(port_of(self.url))
        self.versions = versions_of(info)
        self.time_scale = speed or 1.0
        self.machine: dict[str, Any] = {"simulated": True} if speed else {}

    def failure(self) -> Failure | None:
        """Whether the server still answers is seen in the requests; it is not ours to watch."""
        return None

    def retractions(self) -> int | None:
        """Its log is not ours to read."""
        return None

    def stop(self) -> float:
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def _get(url: str, path: str, api_key: str | None) -> Any:  # noqa: ANN401 (a JSON document)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        answer = httpx.get(url + path, headers=headers, timeout=_TIMEOUT_S)
        return answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
