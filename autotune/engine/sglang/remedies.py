"""What to change after a failure, in words.

Advice about memory goes in two directions: a KV pool that is too small wants a higher
``mem_fraction_static`` (or less to hold), while work beside the pool that runs out of memory wants
a lower one. SGLang's own hints mix them up (#322, #165, #4330), so the stage decides.
"""

from __future__ import annotations

ENVIRONMENT = "wait, then try the same flags again: the environment failed, not the flags"
LOWER_AT_CAPTURE = (
    "lower mem_fraction_static, the largest captured batch (--cuda-graph-max-bs) or "
    "speculative_num_draft_tokens: the KV pool leaves too little for the CUDA graphs"
)
LOWER_AT_RUN_TIME = (
    "lower mem_fraction_static or --chunked-prefill-size: the KV pool leaves too little memory "
    "for the work itself"
)
LOWER_FOR_DRAFT = (
    "lower mem_fraction_static: the KV pool was taken first and leaves no room for the draft model"
)
LOWER_AT_POOL = (
    "lower mem_fraction_static, or free the GPU: the KV pool is larger than the memory that is left"
)
WEIGHTS_TOO_LARGE = (
    "use more GPUs (--tp-size) or a smaller or quantised model: the weights alone do not fit, and "
    "mem_fraction_static does not change that"
)
RAISE_FOR_KV = (
    "raise mem_fraction_static{above}, or lower max_running_requests or "
    "speculative_num_draft_tokens: the weights leave no memory for the KV cache"
)
RAISE_FOR_STATES = (
    "raise mem_fraction_static, or lower max_running_requests or speculative_num_draft_tokens: "
    "each running request keeps one recurrent state per draft token"
)
RAISE_AT_RUN_TIME = (
    "lower max_running_requests or the draft tree, or raise mem_fraction_static: the KV pool ran "
    "out of slots, not the memory beside it"
)
LOWER_RUNNING = "lower max_running_requests: more requests were admitted than there are slots"
TREE_TOO_LARGE = (
    "lower speculative_num_draft_tokens to at most 1 + topk + (steps − 1)·topk²{most}, or raise "
    "speculative_num_steps or speculative_eagle_topk: the draft tree is smaller than asked for"
)
ALL_OR_NONE = (
    "speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens go together: "
    "give all of them or none"
)
OTHER_COMBINATION = (
    "choose another combination: SGLang refuses this one on this backend and version"
)
OTHER_BEFORE_LOAD = "choose another combination: SGLang refuses this one before it loads anything"
SHARED_MEMORY_OF_GPU = (
    "take another attention backend or fewer draft tokens: this kernel needs more shared memory "
    "than the GPU has"
)
CORRECT_FLAG = "correct the flag or its value for this version of SGLang"
INSTALL = "install SGLang for this Python, or start the command from the environment that has it"
FREE_GPUS = "free the GPUs of other processes (nvidia-smi), then try the same flags again"
PORT = "try the same flags again: another process took the port meanwhile"
GIVE_DRAFT = (
    "add --speculative-draft-model-path with a draft model made for this target: EAGLE3, DFLASH "
    "and STANDALONE need one"
)
UNQUANTISED_DRAFT = (
    "add --speculative-draft-model-quantization unquant: the draft model inherits the target's "
    "quantisation"
)
OTHER_DRAFT = "check that the draft model belongs to the target model and to the algorithm"
FIND_MODEL = "check the model path, the network and the access token (HF_TOKEN)"
OTHER_VERSION = "use a version of SGLang that supports the model's architecture"
NCCL = ENVIRONMENT + " (NCCL_DEBUG=INFO tells more)"
OTHER_RANK = "look at the log of the other ranks: one of them failed first, or is much slower"
WATCHDOG = (
    "raise --watchdog-timeout if the first batch is slow; otherwise the server hung, and these "
    "flags should not be tried again"
)
HANG = "the server stopped answering without ending: " + ENVIRONMENT
SLOW_WEIGHTS = "allow more time for the weights, or look at what they wait for"
HOST_MEMORY = "give the host more memory or shared memory, or load fewer weights at a time"
KILLED = (
    "killed from outside with no reason in its log; if it comes back, look at the host's memory "
    "(dmesg) and at what else runs there"
)
KILLED_BY_KERNEL = (
    "give the host or the container more memory: the kernel killed the server for it, and this is "
    "the host's memory, not that of the GPU"
)
TOLD_TO_STOP = "find out what stopped the server (SIGTERM), then try the same flags again"
NO_GPU = "make the GPUs visible to the server: check the driver and CUDA_VISIBLE_DEVICES"
NATIVE_CRASH = (
    "native code of the server crashed: look at the driver and the kernels of this attention "
    "backend; a second launch tells whether the flags cause it"
)
CAPTURE_FAILED = (
    "read the traceback above: the capture of CUDA graphs failed for another reason than memory, "
    "often a kernel that cannot be built or does not fit this backend"
)
TRACEBACK = "read the traceback in the log; a second launch tells whether the flags cause it"
END_OF_LOG = "read the end of the log"
ABORTED = (
    "lower max_running_requests or the context, or raise mem_fraction_static: the KV pool could "
    "not hold even one request, so the server ended it"
)
