"""vLLM-Omni's two kinds of stage on vLLM's CPU worker."""

from __future__ import annotations

from vllm.v1.worker.cpu_worker import CPUWorker  # isort: skip  (it sets up shared memory: before all other imports)

import torch
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner
from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner
from vllm_omni.worker.mixins import OmniWorkerMixin


class TalkerRunner(GPUARModelRunner, CPUModelRunner):
    """Stage 0: the talker with its code predictor."""

    def _init_talker_mtp(self) -> None:
        # no graphs are captured on a CPU, and the size is None; vLLM-Omni takes a maximum over it
        if self.compilation_config.max_cudagraph_capture_size is None:
            self.compilation_config.max_cudagraph_capture_size = 0
        super()._init_talker_mtp()


class Code2WavRunner(GPUGenerationModelRunner, CPUModelRunner):
    """Stage 1: codes to samples."""


class _OmniCpuWorker(OmniWorkerMixin, CPUWorker):
    model_runner_cls: type[CPUModelRunner]  # vLLM-Omni looks for this name

    def init_device(self) -> None:
        self.use_v2_model_runner = False  # the second version needs Triton
        super().init_device()
        self.model_runner = self.model_runner_cls(self.vllm_config, torch.device("cpu"))


class TalkerWorker(_OmniCpuWorker):
    model_runner_cls = TalkerRunner


class Code2WavWorker(_OmniCpuWorker):
    model_runner_cls = Code2WavRunner
