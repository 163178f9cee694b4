#!/bin/sh
# The launch of trial 1, written by autotune 0.1.0.
exec python -m autotune.engine.simulated \
  --scenario qwen3.5-122b-agentic \
  --model-path Qwen/Qwen3.5-122B-A10B \
  --tp 4 \
  --mem-fraction-static 0.85 \
  --port 31359 \
  --host 127.0.0.1 \
  --simulation-seed 1
