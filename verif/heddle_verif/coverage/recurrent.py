"""Coverage of the engine for recurrent networks: layers, dot products of a lane, threads that take turns, columns left out."""

from .model import Exclusion, Group

__all__ = ["TASK", "sample_image"]

LAYERS = ("lstm", "peepholes", "gru", "linear_gru", "rnn", "dense", "several layers")
SKIPPING = ("none", "zeros", "differences")

TASK = Group(
    "recurrent.task", "A task of an image that the engine has run, in its bench.",
    {"layer": LAYERS, "cat": ("1", "2", "4"), "threads": ("one", "take turns", "more than contexts"), "skipping": SKIPPING,
     "rows": ("forward", "backward"), "steps": ("1", "2", "more"), "begins": ("at once", "later"),
     "states": ("none", "some", "all"), "elements": ("one group", "several groups"), "held": ("0", "some", "all")},
    crosses=[("layer", "cat"), ("layer", "threads"), ("layer", "skipping"), ("cat", "threads"), ("cat", "skipping"),
             ("threads", "skipping"), ("layer", "rows"),
             ("layer", "steps"), ("layer", "states"), ("layer", "elements"), ("skipping", "rows"), ("threads", "begins"),
             ("cat", "elements")],
    exclude=[Exclusion("a dense layer has no state", layer="dense", states=("some", "all")),
             Exclusion("it has one state", layer=("gru", "linear_gru", "rnn"), states="some")])


def _skipping(model):
    return "differences" if model.held is not None else "zeros" if model.skip_zeros else "none"


def _held(model):
    """The largest magnitude that waits: none, some, or any of 16 bits."""
    if model.held is None:
        return None
    most = max(model.held.values())
    return "0" if not most else "all" if most >= 32767 else "some"


def sample_image(cfg, image):
    """Count the tasks of an ``EngineImage``."""
    tasks = image.tasks
    turns = "one" if len(tasks) == 1 else "take turns" if len(tasks) <= image.contexts else "more than contexts"
    for task in tasks:
        model, states = task.model, task.model.step.states()
        names = list(model.cats)
        size = max(rows.elements for rows in model.step.rows.values())
        TASK.sample(
            layer=names[0] if len(names) == 1 and names[0] in LAYERS else "several layers", cat=str(max(model.cats.values())),
            threads=turns, skipping=_skipping(model), rows="backward" if model.reverse else "forward",
            steps=str(task.steps) if task.steps < 3 else "more", begins="later" if task.start else "at once",
            states="none" if not task.states else "all" if len(task.states) == len(states) else "some",
            elements="one group" if size <= cfg.tail_lanes else "several groups", held=_held(model))
