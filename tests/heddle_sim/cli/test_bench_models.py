"""``heddle bench models``: rows of its suites with their bounds, and what is said where networks are missing."""

from importlib import metadata

import pytest
from heddle_sim.cli import bench_models
from heddle_sim.models.folder import FOLDER_VARIABLE, models_folder
from heddle_verif.command_line import answer, call

GOLDEN = ["--config", "base", "--simulator", "golden"]


def rows(capsys, *arguments):
    return answer(capsys, "bench", "models", *GOLDEN, *arguments)["rows"]


def test_calls_of_a_loaded_network(capsys):
    """Weights come with the first call alone: a byte each, over the bus of 32 bytes."""
    found = rows(capsys)
    assert [(row["call"], row["steps"], row["loads_weights"], row["bound"]) for row in found] == [
        ("first", 1, True, 4096), ("next", 1, False, 512), ("next", 20, False, 10240), ("step", None, False, 512)]
    assert all(row["checked"] and row["cycles"] is None for row in found)


def test_networks_from_files(capsys):
    if not (models_folder() / "ad01.tflite").is_file():
        pytest.skip(f"ad01.tflite is not in {models_folder().name}")
    found = {row["network"]: row for row in rows(capsys, "--suite", "tiny", "--quick", "--no-check")}
    assert (found["ad01"]["bound"], found["ad01"]["bound_by"], found["ad01"]["macs"]) == (8256, "bus", 264_192)
    assert (found["resnet8"]["bound"], found["resnet8"]["bound_by"]) == (48_850.5, "multipliers")


def test_frames_of_voice_activity(capsys):
    try:
        metadata.distribution("silero-vad")
    except metadata.PackageNotFoundError:
        pytest.skip("silero-vad is not installed")
    found = rows(capsys, "--suite", "silero", "--quick", "--no-check")
    assert [(row["form"], row["frames"], row["on_device"], row["bound_per_frame"], row["bound_by"]) for row in found] == [
        ("float", 1, "LSTM", 4096, "bus"), ("16 bits", 1, "Conv Conv Conv Conv LSTM Conv", 17_984, "bus")]


def test_missing_networks(capsys, monkeypatch, tmp_path):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(bench_models.metadata, "files", absent)
    for words, says in ((["tiny"], "HEDDLE_MODELS must be a folder with resnet8.tflite, kws.tflite, vww.tflite, ad01.tflite, not "),
                        (["silero"], "--suite silero must find silero_vad_16k_sequence.onnx of the package silero-vad"),
                        (["loaded", "--config", "tiny"], "--config must hold an LSTM of 128 units and 128 inputs for bench models ")):
        code, out, err = call(capsys, "bench", "models", *GOLDEN, "--suite", *words)
        assert (code, out, err.count("\n")) == (2, "", 1) and says in err
