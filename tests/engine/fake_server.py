"""Stands in for SGLang as a real process: ``python fake_server.py BEHAVIOUR --port N``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

SLEEP = "import time; time.sleep(60)"
DEAF_SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"

LOADING = (
    "[2026-01-05 10:00:01 TP0] Load weight begin. avail mem=94.10 GB",
    "[2026-01-05 10:00:02 TP0] Load weight end. elapsed=1.0 s, type=Toy, avail mem=32.00 GB, "
    "mem usage=62.00 GB.",
    "[2026-01-05 10:00:03 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 123456, "
    "K size: 9.00 GB, V size: 9.00 GB",
    "[2026-01-05 10:00:03 TP0] Memory pool end. avail mem=9.80 GB",
    "[2026-01-05 10:00:03 TP0] Capture cuda graph begin. This can take up to several minutes.",
    "[2026-01-05 10:00:05 TP0] Capture cuda graph end. Time elapsed: 2.00 s.",
    "[2026-01-05 10:00:05 TP0] max_total_num_tokens=123456, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests=14, context_len=32768, "
    "available_gpu_mem=7.20 GB",
)
OUT_OF_MEMORY = (
    "Traceback (most recent call last):",
    "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB.",
)
OUT_OF_MEMORY_AT_RUN_TIME = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
)
BATCH = (
    "[2026-01-05 10:00:05 TP0] Decode batch, #running-req: 16, #token: 12345, "
    "token usage: 0.50, gen throughput (token/s): 1234.56"
)
MODELS = {"data": [{"id": "toy"}]}
INFO = {
    "version": "0.5.99",
    "api_key": "sk-secret-one",
    "max_running_requests": 48,
    "max_total_num_tokens": 123456,
    "mem_fraction_static": 0.85,
    "page_size": 1,
    "internal_states": [
        {
            "attention_backend": "fa3",
            "effective_max_running_requests_per_dp": 14,
            "memory_usage": {"weight": 62.0, "kvcache": 18.0, "graph": {"decode": 0.5}},
        }
    ],
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/model_info": {}, "/server_info": INFO, "/health": {}, "/v1/models": MODELS}
        body = json.dumps(answers.get(self.path, {})).encode()
        self.send_response(200 if self.path in answers else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def note_children(path: Path, programs: list[str], *, new_session: bool = False) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", program], start_new_session=new_session)
        for program in programs
    ]
    path.write_text("\n".join(str(child.pid) for child in children))


def serve(port: int, *, seconds: float = 60.0) -> None:
    try:
        server = HTTPServer(("127.0.0.1", port), Handler)
    except OSError:
        say(
            f"ERROR:    [Errno 98] error while attempting to bind on {port}: address already in use"
        )
        sys.exit(1)
    with server:
        server.timeout = 0.1
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            server.handle_request()


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("behaviour")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pids", type=Path, default=Path(os.devnull))
    parser.add_argument("--api-key", default="")
    args, _ = parser.parse_known_args()
    match args.behaviour:
        case "ready":
            say(f"server_args={{'api_key': '{args.api_key}', 'port': {args.port}}}", *LOADING)
            say("INFO:     Uvicorn running on http://127.0.0.1 (Press CTRL+C to quit)")
            say("The server is fired up and ready to roll!")
            serve(args.port)
        case "quiet":
            serve(args.port)
        case "dies-in-capture":
            say(*LOADING[:5], *OUT_OF_MEMORY)
            os.kill(os.getpid(), signal.SIGKILL)
        case "dies-while-serving":
            say(*LOADING, "The server is fired up and ready to roll!")
            serve(args.port, seconds=1.5)
            say(OUT_OF_MEMORY_AT_RUN_TIME)
            sys.exit(1)
        case "floods-and-dies":
            say(*LOADING, "The server is fired up and ready to roll!")
            serve(args.port, seconds=1.5)
            for _ in range(3):  # 30 MB
                say(f"{BATCH}\n" * 80_000)
            say(OUT_OF_MEMORY_AT_RUN_TIME)
            sys.exit(1)
        case "never-ready":
            say(LOADING[0])
            time.sleep(60)
        case "leaves-children":
            note_children(args.pids, [SLEEP, DEAF_SLEEP])
            sys.exit(1)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note_children(args.pids, [DEAF_SLEEP])
            serve(args.port)
        case "escapes":
            note_children(args.pids, [DEAF_SLEEP], new_session=True)
            time.sleep(60)
        case "sleeps":
            time.sleep(60)


if __name__ == "__main__":
    main()
