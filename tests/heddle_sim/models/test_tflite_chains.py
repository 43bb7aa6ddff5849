"""Fully connected layers of TFLite that run as one program, beside LiteRT's reference kernels."""

import numpy as np
import pytest
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_verif.stimulus.tflite_files import TfliteFile
from heddle_verif.tflite_checks import RELU, check, rng_of


def row_layers(path, sizes, outputs=(), rows=1):
    """A file of fully connected layers, one behind the other; the results of layers in ``outputs`` are outputs too."""
    rng, file = rng_of(*sizes), TfliteFile()
    values = [file.tensor("x", (rows, sizes[0]), "int8", 0.25, -3)]
    for number, (k, n) in enumerate(zip(sizes, sizes[1:])):
        w = file.constant(f"w{number}", rng.integers(-127, 128, (n, k)), "int8", scale=0.02, zero_point=0)
        b = file.constant(f"b{number}", rng.integers(-500, 500, n), "int32", scale=0.005)
        values.append(file.tensor(f"y{number}", (rows, n), "int8", 0.25, 4))
        file.operator("FULLY_CONNECTED", [values[-2], w, b], [values[-1]], "FullyConnectedOptions", fusedActivationFunction=RELU)
    return file.write(path, values[:1], [values[-1], *(values[1 + number] for number in outputs)])


@pytest.mark.parametrize("rows", [1, 8])
def test_layers_of_few_rows_run_together(tmp_path, device, rows):
    """One run for all of them, whose figures the first has; each alone equals the reference, and so does the result of the run."""
    path, macs = row_layers(tmp_path / "a.tflite", (40, 33, 7, 64), rows=rows), [rows * 40 * 33, rows * 33 * 7, rows * 7 * 64]
    found = check(path, device, most=0)
    assert [node.stats.macs for node in found.result.nodes] == [sum(macs), 0, 0]
    assert found.result.stats.macs == sum(macs)
    assert [one.equal_share for one in found.outputs.values()] == [1]
    with load_model(path, device) as model:
        whys = {placed.why for placed in model.placement}
        assert len(whys) == 1 and whys.pop().startswith("Runs as Device.linear_chain with the nodes from 0 ")
        assert [placed.macs for placed in model.placement] == macs
        with device.load(model) as loaded:
            x = rng_of(5).integers(-128, 128, (rows, 40), np.int8)
            first, second = loaded(x), loaded(x)
            assert all(np.array_equal(first.outputs[name], second.outputs[name]) for name in first.outputs)
            assert loaded.stayed == ["y0", "y1"]


def test_results_that_are_needed_end_a_chain(tmp_path, device):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20, 20, 20), outputs=(1,)), device) as model:
        first, second = (tuple(placed.node.name for placed in model.placement[number:number + 2]) for number in (0, 2))
        assert [placed.chain and placed.chain.nodes for placed in model.placement] == [first, first, second, second]


def test_chains_as_long_as_the_program_memory(tmp_path, device):
    """What is too long is cut."""
    with load_model(row_layers(tmp_path / "a.tflite", (16,) * 91), device) as model:
        chains = list(dict.fromkeys(placed.chain.nodes for placed in model.placement))
        assert len(chains) == 2 and sum(map(len, chains)) == 90
        x = rng_of(6).integers(-128, 128, (1, 16), np.int8)
        found = compared(model, {"x": x})
    assert [one.equal_share for one in found.outputs.values()] == [1]


def test_more_rows_run_layer_by_layer(tmp_path, device):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20), rows=9), device) as model:
        assert [placed.chain for placed in model.placement] == [None, None]


def test_configurations_without_chains_run_layer_by_layer(tmp_path):
    with load_model(row_layers(tmp_path / "a.tflite", (20, 20, 20)), "tiny", simulator="golden") as model:
        assert [placed.chain for placed in model.placement] == [None, None]
        assert [placed.where for placed in model.placement] == ["device"] * 2
