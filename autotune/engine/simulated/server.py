"""SGLang's HTTP surface over the simulated scheduler."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from autotune.engine.sglang.environment import faked_accept_length
from autotune.engine.simulated import documents, text
from autotune.engine.simulated.acceptance import (
    AcceptDistribution,
    accept_distribution,
    faked_distribution,
)
from autotune.engine.simulated.adaptive import gearbox
from autotune.engine.simulated.arguments import (
    RejectedArguments,
    ServerOptions,
    parse_options,
)
from autotune.engine.simulated.batch import BatchScheduler, Noise
from autotune.engine.simulated.generation import Generation, RequestError, read_generation
from autotune.engine.simulated.http import HttpConnection, HttpRequest, Reply
from autotune.engine.simulated.physics import Speculation
from autotune.engine.simulated.pump import Pump, VirtualClock
from autotune.engine.simulated.startup import log, play, start

_FAULT_AFTER = 6
"""Requests that are taken before a fault of the serving stage is played."""
_OPEN_PATHS = ("/health", "/health_generate", "/metrics")
"""Answered without the API key, as in SGLang."""

Route = Callable[[HttpRequest, Reply], Awaitable[None]]


class SimulatedServer:
    """One server: options, scheduler, and the routes on top of them. Used from one event loop."""

    def __init__(self, options: ServerOptions) -> None:
        deployment, speculation = options.deployment, options.deployment.speculation
        gears = None
        if options.adaptive is not None:
            gears = gearbox(
                deployment,
                options.adaptive,
                lambda steps: _acceptance(options, Speculation(steps, 1, steps + 1)),
            )
        scheduler = BatchScheduler(
            deployment, _acceptance(options, speculation), _noise(options), options.seed, gears
        )
        scheduler.cache.keeps = not options.resolved["disable_radix_cache"]
        self.options = options
        self.scheduler = scheduler
        self.pump = Pump(
            scheduler, VirtualClock(options.speed), options.seed, options.decode_log_interval
        )
        self._ids = itertools.count(1)
        self._n_taken = 0
        self._by_rid: dict[str, Generation] = {}
        self._stopping = asyncio.Event()
        self._routes: dict[str, tuple[tuple[str, ...], Route]] = {
            "/health": (("GET",), self._health),
            "/health_generate": (("GET",), self._health),
            "/model_info": (("GET",), self._model_info),
            "/get_model_info": (("GET",), self._model_info),
            "/server_info": (("GET",), self._server_info),
            "/get_server_info": (("GET",), self._server_info),
            "/v1/models": (("GET",), self._models),
            "/v1/loads": (("GET",), self._loads),
            "/flush_cache": (("GET", "POST"), self._flush_cache),
            "/abort_request": (("POST",), self._abort),
            "/tokenize": (("POST",), self._tokenize),
            "/v1/tokenize": (("POST",), self._tokenize),
            "/generate": (("POST",), self._generate),
            "/v1/completions": (("POST",), self._generate),
            "/v1/chat/completions": (("POST",), self._generate),
        }
        if options.resolved["enable_metrics"]:
            self._routes["/metrics"] = (("GET",), self._metrics)

    async def handle(self, request: HttpRequest, reply: Reply) -> None:
        """Answers one request."""
        route = self._routes.get(request.path)
        if route is None:
            reply.document({"detail": "Not Found"}, 404)
        elif request.method not in route[0]:
            reply.document({"detail": "Method Not Allowed"}, 405)
        elif not self._authorized(request):
            reply.document({"error": "Unauthorized"}, 401)
        else:
            try:
                await route[1](request, reply)
            except RequestError as error:
                reply.error(400, str(error))

    async def serve(self) -> None:
        """Opens the port, serves until SIGTERM or SIGINT, drains, and returns."""
        loop = asyncio.get_running_loop()
        host, port = self.options.host, self.options.port
        try:
            server = await loop.create_server(lambda: HttpConnection(self.handle), host, port)
        except OSError as error:
            log(f"ERROR:    {error}")
            sys.exit(1)
        fault = self.options.fault
        is_deaf = fault is not None and fault.stage == "stop"
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, _ignore if is_deaf else self._stopping.set)
        log(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        log("The server is fired up and ready to roll!")
        pump = asyncio.ensure_future(self.pump.run())
        await self._stopping.wait()
        log("SIGTERM received. Draining requests and shutting down...")
        server.close()
        while self._by_rid and not pump.done():
            await asyncio.sleep(0.02)
        pump.cancel()

    def _authorized(self, request: HttpRequest) -> bool:
        key = self.options.api_key
        given = request.headers.get("authorization")
        return key is None or request.path in _OPEN_PATHS or given == f"Bearer {key}"

    # ---- documents ----------------------------------------------------------------------------

    async def _health(self, request: HttpRequest, reply: Reply) -> None:
        reply.document(b"", 503 if self._stopping.is_set() else 200)

    async def _model_info(self, request: HttpRequest, reply: Reply) -> None:
        reply.document(documents.model_info(self.options))

    async def _server_info(self, request: HttpRequest, reply: Reply) -> None:
        reply.document(documents.server_info(self.options, self.pump))

    async def _models(self, request: HttpRequest, reply: Reply) -> None:
        reply.document(documents.models(self.options))

    async def _metrics(self, request: HttpRequest, reply: Reply) -> None:
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        reply.document(documents.metrics(self.options, self.pump), content_type=content_type)

    async def _loads(self, request: HttpRequest, reply: Reply) -> None:
        reply.document(documents.loads(self.options, self.pump))

    async def _flush_cache(self, request: HttpRequest, reply: Reply) -> None:
        if not self.scheduler.is_idle:
            reply.document("Cache not flushed because there are pending requests.\n", 400)
            return
        self.scheduler.cache.flush()
        self.scheduler.n_cycles = self.scheduler.n_accepted = 0
        log("Cache flushed successfully!")
        reply.document("Cache flushed.\nPlease check backend logs for more details.\n")

    async def _tokenize(self, request: HttpRequest, reply: Reply) -> None:
        body = _json_body(request)
        prompt = body.get("prompt", body.get("text", ""))
        if not isinstance(prompt, str):
            raise RequestError("prompt must be a string")
        ids = text.token_ids(text.tokenize(prompt))
        length = self.options.scenario.machine.context_tok
        reply.document({"tokens": ids, "count": len(ids), "max_model_len": length})

    async def _abort(self, request: HttpRequest, reply: Reply) -> None:
        body = _json_body(request)
        if body.get("abort_all"):
            self.pump.abort_all()
        else:
            generation = self._by_rid.get(str(body.get("rid")))
            if generation is not None:
                self.pump.abort(generation.request)
        reply.document(b"")

    # ---- generation ---------------------------------------------------------------------------

    async def _generate(self, request: HttpRequest, reply: Reply) -> None:
        body = _json_body(request)
        generation = read_generation(request.path, body, self.options)
        self._check_fits(generation)
        rid = str(body.get("rid") or f"{next(self._ids):032x}")
        if rid in self._by_rid:
            raise RequestError(f"Duplicate request ID detected: {rid}")
        generation.begin(rid, int(time.time()), self.pump.clock.now_s)
        self._by_rid[rid] = generation
        done = asyncio.get_running_loop().create_future()
        reply.on_disconnect = lambda: self.pump.abort(generation.request)
        if generation.stream:
            reply.start_events()

        def listen(n_tok: int, finished: bool) -> None:
            for payload in generation.advance(n_tok, finished):
                if generation.stream:
                    reply.event(payload)
            if finished and not done.done():
                done.set_result(None)

        self.pump.submit(generation.request, listen)
        self._fail_as_told(generation)
        await done
        del self._by_rid[rid]
        if generation.stream:
            reply.end_events()
        else:
            reply.document(generation.document())

    def _fail_as_told(self, generation: Generation) -> None:
        """Plays a fault of the serving stage, once some requests have come."""
        fault = self.options.fault
        self._n_taken += 1
        if fault is None or fault.stage != "serving" or self._n_taken < _FAULT_AFTER:
            return
        play(fault)
        if fault.kind == "hang":
            self.pump.freeze()
        elif fault.kind == "request_aborted":
            self.pump.abort(generation.request)

    def _check_fits(self, generation: Generation) -> None:
        limit = min(self.scheduler.cache.capacity_tok, self.options.scenario.machine.context_tok)
        limit -= self.options.deployment.reserved_tok
        prompt_tok = generation.request.prompt_tok
        if prompt_tok >= limit:
            raise RequestError(
                f"The input ({prompt_tok} tokens) is longer than the model's context length "
                f"({limit} tokens)."
            )
        generation.request.output_tok = min(generation.request.output_tok, limit - prompt_tok)


def _acceptance(options: ServerOptions, spec: Speculation) -> AcceptDistribution:
    faked = faked_accept_length(os.environ)
    with suppress(ValueError):  # SGLang passes over a value that is no number, too
        if faked is not None and spec.is_on:
            return faked_distribution(float(faked), spec.steps)
    draft = options.scenario.draft.scaled(options.defects.draft_quality)
    return accept_distribution(draft, spec.steps, spec.topk, spec.draft_tokens)


def _noise(options: ServerOptions) -> Noise:
    noise = Noise() if options.resolved["no_noise"] else options.scenario.noise
    defects = options.defects
    return replace(noise, slow_down=defects.slow_down, slow_down_after_s=defects.slow_down_after)


def _json_body(request: HttpRequest) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body


def main(argv: list[str] | None = None) -> None:
    """The process: parse, start, serve, and end with SGLang's exit status."""
    try:
        options, notes = parse_options(argv)
    except RejectedArguments as error:
        print(f"Traceback (most recent call last):\n{error}", file=sys.stderr, flush=True)
        sys.exit(1)
    # As SGLang does, with the key in it: whoever keeps the log must take it out.
    everything = options.resolved | {"api_key": options.api_key}
    shown = {k: v for k, v in everything.items() if v is not None}
    log(f"server_args={shown}")
    if options.fault is not None and options.fault.stage == "parse":
        play(options.fault)
    start(options, notes)
    asyncio.run(_serve(options))


def _ignore() -> None:
    """A signal that a server deaf to it does not hear."""


async def _serve(options: ServerOptions) -> None:
    await SimulatedServer(options).serve()
