from __future__ import annotations

import threading
import time

from autotune.engine.gpu import MemoryGate, foreign_users, visible_gpus

from .conftest import NvidiaSmi


def test_without_the_tool_nothing_is_known_and_nothing_is_waited_for(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(fails=True)
    assert visible_gpus({}) == [] and foreign_users([]) == []
    began = time.monotonic()
    assert MemoryGate({}).wait(30.0) == []
    assert time.monotonic() - began < 5


def test_only_visible_gpus_count(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(gpus=[(0, 10), (1, 10), (2, 10)])
    assert [gpu.index for gpu in visible_gpus({})] == [0, 1, 2]
    assert [gpu.index for gpu in visible_gpus({"CUDA_VISIBLE_DEVICES": "2,0"})] == [0, 2]
    assert [gpu.index for gpu in visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-1"})] == [1]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == []


def test_who_holds_much_of_a_visible_gpu_is_named(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(gpus=[(0, 50_000), (1, 50_000)], users=[(0, 77, 40_960), (1, 78, 300)])
    (user,) = foreign_users(visible_gpus({}))
    assert str(user) == "other (process 77) holds 40.0 GB of GPU 0"
    assert foreign_users(visible_gpus({"CUDA_VISIBLE_DEVICES": "1"})) == []


def test_the_gate_opens_when_the_memory_is_back(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(gpus=[(0, 500)])
    gate = MemoryGate({})
    nvidia_smi(gpus=[(0, 80_000)])
    timer = threading.Timer(0.6, lambda: nvidia_smi(gpus=[(0, 900)]))
    timer.start()
    began = time.monotonic()
    assert gate.wait(30.0) == []
    assert 0.4 < time.monotonic() - began < 10
    timer.join()


def test_memory_that_does_not_come_back_is_named_at_the_deadline(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(gpus=[(0, 500), (1, 500)])
    gate = MemoryGate({})
    nvidia_smi(gpus=[(0, 600), (1, 80_000)])
    assert [gpu.index for gpu in gate.wait(0.3)] == [1]
