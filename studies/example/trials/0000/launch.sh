#!/bin/sh
# The launch of trial 0, written by autotune 0.1.0.
exec python -m autotune.engine.simulated \
  --scenario qwen3.5-122b-agentic \
  --model-path Qwen/Qwen3.5-122B-A10B \
  --tp 4 \
  --speculative-algorithm EAGLE \
  --speculative-num-steps 3 \
  --speculative-eagle-topk 1 \
  --speculative-num-draft-tokens 4 \
  --mem-fraction-static 0.85 \
  --port 25867 \
  --host 127.0.0.1 \
  --simulation-seed 0
