"""Recording: the operations of a function are listed once and from then on run without Python.

On a CPU a frame of the tiny voice is some three thousand small operations, and Python takes as long
between them as they take themselves. It also hands its lock back and forth at each of them, so that
the Code2Wav thread and the engine's wait for each other; a replayed recording takes the lock once.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from reference_impl.model.spans import tracing

_one_at_a_time = threading.Lock()  # TorchScript's tracer keeps books that two threads must not write at once


class Recording:
    """Call it like ``function``: recorded at the first call (TorchScript's tracer, about a second), then replayed.

    ``function`` takes tensors and returns one. What it computes may depend on their sizes, but which
    operations it runs must not, and a tensor that it changes in place must be one of its arguments
    (others are constants of the recording). The results are those of the function, bit by bit.
    """

    def __init__(self, function: Callable[..., Tensor]):
        self._function = function
        self._replays: dict[bool, Callable[..., Tensor]] = {}  # without ranges of a trace, and with them

    def __call__(self, *tensors: Tensor) -> Tensor:
        """See the class."""
        replay = self._replays.get(tracing())
        if replay is None:
            with _one_at_a_time, warnings.catch_warnings():
                # that sizes of the model become constants, and that TorchScript is no longer developed
                warnings.simplefilter("ignore")
                # on copies: recording runs the function, which may change what it is given
                copies = tuple(tensor.clone() for tensor in tensors)
                replay = torch.jit.trace(lambda *given: self._function(*given), copies, check_trace=False)
                self._replays[tracing()] = replay
        # TorchScript's optimiser would take another second of the first calls, and then saves 4 % of the time
        with torch.jit.optimized_execution(False):
            return replay(*tensors)
