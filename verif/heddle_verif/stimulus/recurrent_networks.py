"""Random recurrent networks for the engine: layers, models, tasks and their image."""

import numpy as np
from heddle_sim.rnn.image import build_image, check_fit
from heddle_sim.rnn.layers import add_layer
from heddle_sim.rnn.model import EngineModel
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import GATES, FloatLayer
from heddle_sim.rnn.step import Step, Vector
from heddle_sim.rnn.task import Task

__all__ = ["KINDS", "random_image", "random_layer", "random_model", "random_sequences", "random_task", "stacked_gru"]

KINDS = ("lstm", "peepholes", "gru", "linear_gru", "rnn", "dense")
ACTIVATIONS = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",), "dense": ("Sigmoid",)}


def random_layer(rng, kind, inputs, size):
    """A ``FloatLayer`` of one of ``KINDS``."""
    base = {"peepholes": "lstm", "linear_gru": "gru"}.get(kind, kind)
    gates = len(GATES[base])
    scale = 2 / np.sqrt(inputs + size)
    weights = [rng.normal(0, scale, (gates, size, columns)) for columns in (inputs, size)]
    biases = [rng.normal(0, 0.5, (gates, size)) * (rng.random() < 0.8) for _ in range(2)]
    activations = ACTIVATIONS[base]
    if base in ("rnn", "dense") and rng.random() < 0.3:
        activations = ("Relu",)
    return FloatLayer(base, weights[0], None if base == "dense" else weights[1], biases[0], biases[1] * (base != "dense"), activations,
                      rng.normal(0, 0.5, (3, size)) if kind == "peepholes" else None, kind == "linear_gru")


def random_model(cfg, rng, kind, inputs, size, cat=1, **options):
    """One layer on the engine, with its output; ``options`` are those of ``EngineModel``."""
    layer = quantise_layer(random_layer(rng, kind, inputs, size))
    step = Step()
    step.add_vector("x", Vector(inputs, "input", layer.fractions["x0"], layer.limits["x0"]))
    result = add_layer(step, kind, layer, ["x"])
    step.outputs.append(result)
    return EngineModel(cfg, step, cat, **options)


def stacked_gru(cfg, rng, inputs, size, layers=2, *, linear=True, cat=1, **options):
    """GRUs in one step, each of which reads the result of the one before; all but the first multiply their hidden vector first.
    ``options`` are those of ``EngineModel``."""
    step, last = Step(), "x"
    for number in range(layers):
        width = size if number else inputs
        fractions = {"x0": step.vectors[last].fraction} if number else None
        layer = quantise_layer(random_layer(rng, "linear_gru" if linear else "gru", width, size), fractions=fractions)
        if not number:
            step.add_vector("x", Vector(inputs, "input", layer.fractions["x0"], layer.limits["x0"]))
        last = add_layer(step, f"l{number}", layer, [last], ["h", "x0"] if number else None)
    step.outputs.append(last)
    return EngineModel(cfg, step, cat, **options)


def random_task(rng, model, steps, start=0, zeros=0.0):
    """A task with random inputs, of which a share are zero, and states."""
    vectors = model.step.vectors

    def values(vector, shape):
        limit = min(vector.limit, 32767)
        return rng.integers(-limit, limit + 1, shape).astype(np.int16)

    rows = {name: values(vector, (steps, vector.size)) for name, vector in vectors.items() if vector.kind == "input"}
    for block in rows.values():
        block[rng.random(block.shape) < zeros] = 0
    states = {name: values(vectors[name], vectors[name].size) for name in model.step.states() if rng.random() < 0.7}
    return Task(model, rows, states, 0, start)


def _held(cfg, rng):
    """Differences that wait, where there are any."""
    return int(rng.choice([0, 1, 500, 32767, 65535])) if cfg.rnn_differences and rng.random() < 0.8 else None


def random_image(cfg, rng, *, models=1, tasks=3, largest=12, longest=5, contexts=None, kinds=KINDS, cats=(1, 2, 4), starts=False):
    """An ``EngineImage`` of several models and tasks; sizes are drawn again until it fits."""
    while True:
        made = []
        for _ in range(models):
            cat = int(rng.choice([cat for cat in cats if cat <= cfg.dot]))
            made.append(random_model(cfg, rng, str(rng.choice(kinds)), int(rng.integers(1, largest + 1)), int(rng.integers(1, largest + 1)),
                                     cat, reverse=bool(rng.integers(2)), skip_zeros=bool(rng.integers(2)), held=_held(cfg, rng)))
        work = [random_task(rng, made[int(rng.integers(len(made)))], int(rng.integers(1, longest + 1)),
                            int(rng.integers(0, 400)) if starts else 0, float(rng.choice([0, 0.5, 0.9]))) for _ in range(tasks)]
        try:
            image = build_image(cfg, work, contexts)
            if image.bias_registers is None:        # else a program has to load them
                return image
        except ValueError as error:
            if not any(rule in str(error) for rule in ("must fit", "contexts must", "must have registers")):
                raise


def random_sequences(rng, cfg, *, models=3, tasks=4, largest=130, longest=20):
    """``Sequence``s of random networks of one layer each for ``Device.run_tasks``, every network used; sizes are drawn again until their
    weights fit together. Some begin later, leave out columns of zeros or, with ``rnn_differences``, small differences."""
    while True:
        networks = []
        for _ in range(int(rng.integers(1, models + 1))):
            kind, inputs, size = str(rng.choice(KINDS)), *rng.integers(1, largest + 1, 2)
            options = dict(cats=None if rng.random() < 0.5 else int(rng.choice([1, 2, 4])), skip_zeros=bool(rng.integers(2)))
            if cfg.rnn_differences and rng.random() < 0.5:
                options["threshold"] = float(rng.choice([0, 0.01, 0.2]))
            networks.append(Network.of_layer(random_layer(rng, kind, int(inputs), int(size)), reverse=bool(rng.integers(2)), **options))
        try:
            check_fit(cfg, [network.model(cfg) for network in networks])
        except ValueError:
            continue
        sequences = []
        for index in range(max(len(networks), int(rng.integers(1, tasks + 1)))):
            network = networks[index % len(networks)]
            vectors = network.step.vectors
            x = rng.uniform(-1, 1, (int(rng.integers(1, longest + 1)), vectors["x"].size))
            x *= rng.random(x.shape) >= rng.choice([0, 0.5, 0.9])
            states = {name: rng.uniform(-0.9, 0.9, vectors[name].size) for name in network.step.states() if rng.random() < 0.7}
            sequences.append(Sequence(network, x, states, start=int(rng.integers(500)) if rng.random() < 0.3 else 0))
        return sequences
