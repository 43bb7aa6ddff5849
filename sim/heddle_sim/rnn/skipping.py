"""Which columns of an image the engine leaves out, for the cycle model."""

import numpy as np

from ..golden.rnn import EngineState, engine_run

__all__ = ["zero_columns"]


def zero_columns(cfg, image):
    """For each task of an ``EngineImage``, each step and each sweep a bool array [columns]: all of its elements are zero.

    With ``rnn_differences`` and a model with ``held`` these are the elements of the differences. The golden engine runs the image.
    """
    state, shared = EngineState.for_config(cfg), np.zeros(cfg.shared_bytes, np.uint8)
    state.factors[:, :image.words.shape[1]] = image.words
    shared[:len(image.shared)] = image.shared
    if image.bias_registers is not None:
        count = len(image.bias_registers) * cfg.threads
        table = shared[image.bias_address:image.bias_address + 4 * count].view("<i4").reshape(-1, cfg.threads)
        state.products[:, list(image.bias_registers)] = table.T
    elif image.bias_address is not None:
        engine_run(cfg, state, shared, image.bias_address)
    state.zeros = []
    engine_run(cfg, state, shared, image.address)
    found = iter(state.zeros)
    return [[[next(found) for _ in task.model.step.sweeps] for _ in range(task.steps)] for task in image.tasks]
