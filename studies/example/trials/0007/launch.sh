#!/bin/sh
# The launch of trial 7, written by autotune 0.1.0.
exec python -m autotune.engine.simulated \
  --scenario qwen3.5-122b-agentic \
  --model-path Qwen/Qwen3.5-122B-A10B \
  --tp 4 \
  --speculative-algorithm EAGLE \
  --speculative-num-steps 6 \
  --speculative-eagle-topk 4 \
  --speculative-num-draft-tokens 7 \
  --mem-fraction-static 0.94 \
  --port 23308 \
  --host 127.0.0.1 \
  --simulation-seed 7
