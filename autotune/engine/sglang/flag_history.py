"""In which releases of SGLang each flag exists: the whole argument tables, compared.

Made by reading the calls of ``add_argument`` and the annotated fields (``A[...]``) of the published
wheels 0.4.5, 0.4.6.post5, 0.4.7 to 0.4.10, 0.5.1, 0.5.2 and 0.5.3 to 0.5.23 with a parser, without
running them. A flag that is only there to say that it is gone (``DeprecatedAction``) counts as
absent. Left out are flags that every one of these releases has, and five of which the reading
left in doubt when they were there: ``--custom-sigquit-handler``, ``--nccl-port``,
``--disable-shared-experts-fusion``, ``--hierarchical-sparse-attention-extra-config`` and
``--stat-loggers``.
"""

from __future__ import annotations

from collections.abc import Mapping

_SINCE = {
    "0.4.6.post5": """
        bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token
        collect-tokens-histogram deepep-config disable-chunked-prefix-cache
        disable-fast-image-processor disaggregation-ib-device
        disaggregation-transfer-backend enable-dp-lm-head enable-eplb
        enable-expert-distribution-metrics enable-multimodal
        enable-request-time-stats-logging enable-tokenizer-batch-encode
        ep-dispatch-algorithm ep-num-redundant-experts eplb-rebalance-num-iterations
        expert-distribution-recorder-buffer-size expert-distribution-recorder-mode
        hicache-size hicache-write-policy init-expert-location kv-events-config
        max-micro-batch-size mm-attention-backend moe-dense-tp-size pdlb-url
        pipeline-parallel-size pp-size preferred-sampling-params
    """,
    "0.4.7": """
        enable-mscclpp enable-two-batch-overlap eplb-algorithm
        eplb-rebalance-layers-per-chunk impl
    """,
    "0.4.8": """
        custom-weight-loader debug-tensor-dump-prefill-only disable-overlap-cg-plan
        disaggregation-decode-dp disaggregation-decode-tp disaggregation-prefill-pp
        enable-flashinfer-moe enable-profile-cuda-graph enable-return-hidden-states
        num-reserved-decode-tokens sleep-on-idle weight-loader-disable-mmap
    """,
    "0.4.9": """
        crash-dump-folder enable-flashinfer-allreduce-fusion hybrid-kvcache-ratio model
        model-loader-extra-config skip-server-warmup
    """,
    "0.4.10": """
        decode-attention-backend disable-hybrid-swa-memory enable-flashinfer-cutlass-moe
        enable-flashinfer-trtllm-moe enable-lora enable-metrics-for-all-schedulers
        enable-pdmux enable-triton-kernel-moe ep hicache-io-backend hicache-storage-backend
        lora-target-modules max-lora-rank max-queued-requests model-impl
        prefill-attention-backend sm-group-num swa-full-tokens-ratio
    """,
    "0.5.1": """
        disable-flashinfer-cutlass-moe-fp4-allgather enable-cudagraph-gc
        enable-flashinfer-mxfp4-moe enable-symm-mem flashinfer-mxfp4-moe-precision
        gc-warning-threshold-secs hicache-mem-layout hicache-storage-prefetch-policy
        max-loaded-loras moe-a2a-backend moe-runner-backend offload-group-size offload-mode
        offload-num-in-group offload-prefetch-step scheduler-recv-interval
        tbo-token-distribution-threshold tool-server weight-version
    """,
    "0.5.2": """
        enable-lmcache eplb-min-rebalancing-utilization-threshold generation-tokens-buckets
        hicache-storage-backend-extra-config mamba-ssm-dtype max-mamba-cache-size numa-node
        prefill-round-robin-balance prompt-tokens-buckets speculative-attention-mode
        speculative-draft-model speculative-draft-model-revision tokenizer-worker-num
    """,
    "0.5.3": """
        config disaggregation-decode-enable-offload-kvcache
        disaggregation-decode-polling-interval dynamic-batch-tokenizer-batch-size
        dynamic-batch-tokenizer-batch-timeout enable-deterministic-inference
        enable-dynamic-batch-tokenizer enable-fp32-lm-head enable-priority-scheduling
        enable-single-batch-overlap enable-torch-symm-mem enable-trace
        enable-weights-cpu-backup keep-mm-feature-on-device load-watch-interval
        max-lora-chunk-size nsa-decode nsa-prefill oltp-traces-endpoint
        priority-scheduling-preemption-threshold radix-eviction-policy
        remote-instance-weight-loader-seed-instance-ip
        remote-instance-weight-loader-seed-instance-service-port
        remote-instance-weight-loader-send-weights-group-ports
        schedule-low-priority-values-first speculative-ngram-branch-length
        speculative-ngram-capacity speculative-ngram-match-type
        speculative-ngram-max-bfs-breadth speculative-ngram-max-match-window-size
        speculative-ngram-min-bfs-breadth speculative-ngram-min-match-window-size
        tokenizer-metrics-allowed-custom-labels tokenizer-metrics-custom-labels-header
        triton-attention-split-tile-size
    """,
    "0.5.4": """
        abort-on-priority-when-disabled checkpoint-engine-wait-weights-before-ready
        constrained-json-disable-any-whitespace disable-tokenizer-batch-decode
        elastic-ep-backend enable-beta-spec enable-piecewise-cuda-graph grpc-mode
        kt-amx-method kt-amx-weight-path kt-cpuinfer kt-num-gpu-experts kt-threadpool-count
        lora-eviction-policy mamba-full-memory-ratio modelopt-checkpoint-restore-path
        modelopt-checkpoint-save-path modelopt-export-path modelopt-quant mooncake-ib-device
        multi-item-scoring-delimiter nsa-decode-backend nsa-prefill-backend
        pdmux-config-path piecewise-cuda-graph-compiler piecewise-cuda-graph-max-tokens
        piecewise-cuda-graph-tokens pp-max-micro-batch-size quantize-and-serve
        sampling-defaults speculative-draft-load-format
    """,
    "0.5.5": """
        debug-tensor-dump-layers decrypted-config-file decrypted-draft-config-file
        kt-max-deferred-experts-per-token mm-max-concurrent-calls mm-per-request-timeout
        otlp-traces-endpoint rl-on-policy-target speculative-moe-runner-backend
    """,
    "0.5.6": """
        dllm-algorithm dllm-block-size enable-attn-tp-input-scattered
        enable-broadcast-mm-inputs-process enable-draft-weights-cpu-backup
        enable-flashinfer-autotune enable-layerwise-nvtx-marker
        enable-nsa-prefill-context-parallel enable-torch-compile-debug-mode
        export-metrics-to-file export-metrics-to-file-dir fastapi-root-path forward-hooks
        kt-method kt-weight-path mm-enable-dp-encoder mm-process-config
    """,
    "0.5.7": """
        disable-flashinfer-autotune disaggregation-decode-enable-fake-auto
        dllm-algorithm-config enable-dynamic-chunking enable-fused-qk-norm-rope
        enable-multi-layer-eagle enable-precise-embedding-interpolation
        enable-prefix-mm-cache enable-return-routed-experts encoder-only
        encoder-transfer-backend encoder-urls fp8-gemm-backend language-only
        limit-mm-data-per-request log-requests-format mamba-scheduler-strategy
        mamba-track-interval pp-async-batch-depth prefill-max-requests
        remote-instance-weight-loader-backend
        remote-instance-weight-loader-start-seed-via-transfer-engine rl-quant-profile
        soft-watchdog-timeout speculative-draft-attention-backend
        speculative-draft-model-quantization speculative-moe-a2a-backend
    """,
    "0.5.8": """
        admin-api-key disable-hicache-numa-detect enable-lora-overlap-loading
        enable-prefill-delayer fp4-gemm-backend hf-chat-template-name log-requests-target
        model-checksum nsa-prefill-cp-mode prefill-delayer-forward-passes-buckets
        prefill-delayer-max-delay-passes prefill-delayer-token-usage-low-watermark
        prefill-delayer-wait-seconds-buckets uvicorn-access-log-exclude-prefixes
    """,
    "0.5.9": """
        attention-context-parallel-size attn-cp-size extra-metric-labels mamba-backend
        moe-data-parallel-size moe-dp-size
    """,
    "0.5.10": """
        default-priority-value disable-piecewise-cuda-graph disable-priority-preemption
        enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion
        enable-elastic-expert-backup enable-fused-moe-sum-all-reduce enable-hisparse
        enable-mfu-metrics enable-mm-global-cache enable-prefill-context-parallel
        enable-ssl-refresh enable-streaming-session
        enforce-disable-flashinfer-allreduce-fusion enforce-piecewise-cuda-graph
        engine-info-bootstrap-port experts-shared-outer-loras gc-threshold hisparse-config
        incremental-streaming-output linear-attn-backend linear-attn-decode-backend
        linear-attn-prefill-backend modelexpress-config pre-warm-nccl prefill-cp-mode
        speculative-ngram-max-trie-depth ssl-ca-certs ssl-certfile ssl-keyfile
        ssl-keyfile-password stream-response-default-include-usage use-ray
    """,
    "0.5.11": """
        batch-notify-size debug-cuda-graph disaggregation-decode-enable-radix-cache
        elastic-ep-rejoin enable-breakable-cuda-graph
        enable-dp-attention-local-control-broadcast enable-http2 enable-mis
        enable-quant-communications enforce-shared-experts-fusion grpc-http-sidecar-port
        lora-strict-loading lora-use-virtual-experts msprobe-dump-config record-nolora-graph
        speculative-adaptive speculative-adaptive-config speculative-dflash-block-size
        speculative-dflash-draft-window-size speculative-ngram-external-corpus-max-tokens
        speculative-ngram-external-corpus-path speculative-ngram-external-sam-budget
        speculative-skip-dp-mlp-sync strip-thinking-cache tokenizer-backend
        weight-loader-prefetch-checkpoints weight-loader-prefetch-num-threads
    """,
    "0.5.12": """
        detokenizer-worker-num enable-deepep-waterfill enable-forward-pass-metrics
        enable-return-indexer-topk enable-strict-thinking forward-pass-metrics-ipc-name
        forward-pass-metrics-worker-id lora-drain-wait-threshold model-config-parser
        prefill-delayer-max-delay-ms prefill-delayer-queue-min-ratio
        prefill-only-disable-kv-cache speculative-draft-window-size
        weight-loader-drop-cache-after-load
    """,
    "0.5.13": """
        asr-max-buffer-seconds asr-max-concurrent-sessions deepep-dispatcher-output-dtype
        disable-attn-tp-gather dsa-decode-backend dsa-prefill-backend dsa-prefill-cp-mode
        dsa-topk-backend enable-deepseek-v4-fp4-indexer enable-dsa-prefill-context-parallel
        encoder-bootstrap-port encoder-register-urls kv-canary kv-canary-real-data
        kv-canary-sweep-interval lmcache-config-file load-snapshot-publish-interval
        optimistic-prefill-retries radix-cache-backend trace-modules
    """,
    "0.5.14": """
        cp-strategy cuda-graph-backend-decode cuda-graph-backend-prefill
        cuda-graph-bs-decode cuda-graph-bs-prefill cuda-graph-config
        cuda-graph-max-bs-decode cuda-graph-max-bs-prefill cuda-graph-tc-compiler
        disable-decode-cuda-graph disable-prefill-cuda-graph
        disaggregation-decode-extra-slots enable-int8-mamba-checkpoint enable-prefill-cp
        flashinfer-allreduce-fusion-backend int8-mamba-ckpt-size mamba-radix-cache-strategy
        speculative-use-rejection-sampling
    """,
    "0.5.15": """
        bf16-gemm-backend dcp-size decode-context-parallel-size decoupled-spec-bind-endpoint
        decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role
        dsa-paged-mqa-logits-backend enable-linear-replayssm
        enable-mamba-cache-stochastic-rounding enable-page-major-kv-layout
        enable-session-radix-cache enable-tf32-matmul enable-unified-memory
        linear-replayssm-cache-len mamba-cache-philox-rounds min-free-slots-delay
        spec-trace-dir
    """,
    "0.5.16": """
        default-chat-template-kwargs dllm-fdfo elastic-ep-initial-size elastic-ep-join-mode
        elastic-ep-join-rank-offset elastic-ep-scale-timeout enable-dsa-cache-layer-split
        enable-flexkv enable-gdn-replayssm-spec enable-scattered-sconv enable-waterfill
        flexkv-config-file fuseep-mode grpc-port max-ep-size mm-feature-transport
        optimistic-prefill-attempts retraction-policy sidecar sidecar-args smg-grpc-mode
        smg-http-sidecar-port speculative-dspark-align-verify-tokens-to-graph-tier
        speculative-dspark-block-size speculative-dspark-confidence-sts-path
        speculative-dspark-sps-table-path
    """,
    "0.5.17": """
        dcp-comm-backend dcp-replicate-q-proj dwdp-size enable-cp-decode-attn-tp
        enable-linear-replayssm-spec flashinfer-autotune-skip-ops linear-attn-verify-backend
        mamba-max-states-per-path mm-io-worker-num mm-processor-worker-num
        return-hidden-states-mode weight-cache-mode weight-cache-socket weight-cache-timeout
    """,
    "0.5.18": """
        allowed-media-domains c128-page-size disaggregation-decode-retraction-backup
        enable-tp-lm-head-all-to-all expert-balancedness-report-mode
        http2-max-concurrent-streams image-processor-backend language-model-only
        media-url-max-file-size-mb mlx-enable-sampling mm-global-cache-backend
        mm-preprocess-cache-size-mb speculative-draft-kv-cache-dtype
        startup-weight-load-mode trust-mm-content-hashes
    """,
    "0.5.19": """
        deepep-v2-mode dsv4-prefill-backend enable-dense-mlp-attn-tp enable-layernorm-sp
        enable-lean-attention enable-shared-experts-attn-tp enable-w4a4-mxfp4-megamoe
        gated-launch-port hicache-host-memory-mode
        hicache-storage-prefetch-retry-max-attempts
        hicache-storage-prefetch-retry-poll-interval http2-initial-connection-window-size
        load-publish-endpoint prefill-decode-interval speculative-dsa-topk-backend
    """,
    "0.5.20": """
        dsv4-attn-backend enable-response-store enable-unified-cache-external-linker
        flashinfer-a2a-dispatch-type ple-offload-backend ple-offload-dir
        ple-offload-embedding radix-eviction-policy-config return-input-ids
        return-output-ids sampling-mask-max-tokens speculative-domino-candidate-pool-size
        unified-cache-external-linker-backend uno-lora-path
    """,
    "0.5.21": """
        boundary-reduction constrained-json-max-whitespace-cnt context-bucket
        cuda-graph-max-seq-len-prefill cuda-graph-prefill-max-context
        disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill
        disaggregation-decode-host-receive-threshold disaggregation-enable-kv-checksum
        enable-decoder-swa-bounded-replay enable-encoder-swa-bounded-replay
        enable-linker-mla-dedup enable-pd-role-switch grpc-response-timeout-secs
        hicache-host-memory-fraction otlp-service-name prefill-kv-cache-dequant-dtype
        shared-experts-tp-size speculative-draft-sink-size swa-prefix-tails
        trust-request-chat-template
    """,
    "0.5.22": """
        attention-data-parallel-size attn-dp-size disaggregation-decode-allocation-policy
        dsa-triton-union enable-dsa-fused-indexer enable-kv-cache-sharding enable-watermark
        qsa-indexer-dtype speculative-enable-w4a4-mxfp4-megamoe
        speculative-use-block-verification watermark-config
    """,
    "0.5.23": """
        enable-amd-monokernel enable-hicache enable-http-worker-reuseport
        enable-megamoe-for-layernorm-sp enable-nvidia-megakernel enable-paged-experts
        enable-return-aux-hidden-states monokernel-backend paged-experts-num-resident
        prefill-decode-interval-min-bs return-aux-hidden-state-layer-ids
        unified-cache-external-linker-config
    """,
}
"""Flags by the first of these releases that has them."""

_UNTIL = {
    "0.4.5": """
        disable-mla enable-flashinfer-mla enable-flashmla
    """,
    "0.4.6.post5": """
        n-share-experts-fusion
    """,
    "0.4.9": """
        disable-overlap-cg-plan enable-flashinfer-moe impl
    """,
    "0.5.1": """
        pdlb-url
    """,
    "0.5.2": """
        enable-deepep-moe enable-ep-moe enable-flashinfer-cutlass-moe
        enable-flashinfer-mxfp4-moe enable-flashinfer-trtllm-moe enable-triton-kernel-moe
    """,
    "0.5.3": """
        debug-tensor-dump-prefill-only max-micro-batch-size nsa-decode nsa-prefill
    """,
    "0.5.4": """
        enable-beta-spec oltp-traces-endpoint
    """,
    "0.5.5": """
        kt-amx-method kt-amx-weight-path
    """,
    "0.5.6": """
        dllm-block-size enable-flashinfer-autotune load-watch-interval
    """,
    "0.5.7": """
        hybrid-kvcache-ratio prefill-round-robin-balance
    """,
    "0.5.8": """
        disaggregation-decode-enable-fake-auto
    """,
    "0.5.9": """
        disable-hicache-numa-detect disaggregation-decode-dp disaggregation-decode-tp
        disaggregation-prefill-pp enable-piecewise-cuda-graph mm-max-concurrent-calls
        mm-per-request-timeout speculative-ngram-branch-length
        speculative-ngram-max-match-window-size speculative-ngram-min-match-window-size
    """,
    "0.5.10": """
        collect-tokens-histogram ds-channel-config-path ds-heavy-channel-num
        ds-heavy-channel-type ds-heavy-token-num ds-sparse-decode-threshold
        enable-double-sparsity multi-item-scoring-delimiter
    """,
    "0.5.12": """
        enable-nan-detection record-nolora-graph
    """,
    "0.5.13": """
        debug-tensor-dump-inject
    """,
    "0.5.15": """
        enable-deepep-waterfill optimistic-prefill-retries
    """,
    "0.5.17": """
        enable-expert-distribution-metrics torchao-config
    """,
    "0.5.19": """
        cuda-graph-bs cuda-graph-max-bs disable-piecewise-cuda-graph dsa-prefill-cp-mode
        enable-breakable-cuda-graph enable-dsa-prefill-context-parallel
        enable-gdn-replayssm-spec enable-nsa-prefill-context-parallel
        enable-prefill-context-parallel enforce-piecewise-cuda-graph
        mamba-scheduler-strategy nsa-decode-backend nsa-prefill-backend nsa-prefill-cp-mode
        piecewise-cuda-graph-compiler piecewise-cuda-graph-max-tokens
        piecewise-cuda-graph-tokens prefill-cp-mode speculative-dflash-draft-window-size
        stream-output
    """,
    "0.5.20": """
        elastic-ep-rejoin keep-mm-feature-on-device
    """,
    "0.5.21": """
        cuda-graph-tc-compiler
    """,
    "0.5.22": """
        speculative-skip-dp-mlp-sync
    """,
}
"""Flags by the last one."""


def _by_flag(table: Mapping[str, str]) -> dict[str, str]:
    return {f"--{flag}": release for release, flags in table.items() for flag in flags.split()}


FIRST: Mapping[str, str] = _by_flag(_SINCE)
"""Spelling of a flag to the first release that takes it; absent: it was always there."""

LAST: Mapping[str, str] = _by_flag(_UNTIL)
"""Spelling of a flag to the last release that takes it; absent: it still does."""
