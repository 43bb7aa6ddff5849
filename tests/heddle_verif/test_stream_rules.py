"""The checkers of streams: which streams they find in a signature, and what breaks a rule."""

import pytest
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature
from cocotb.types import LogicArray
from heddle import load_config
from heddle.memory.barriers import Barriers
from heddle.memory.global_arbiter import GlobalArbiter
from heddle.top import Top
from heddle_verif.agents.stream import BundleHandles
from heddle_verif.checkers.stream_rules import StreamChecker, bundles_of, streams_of

TINY = load_config("tiny")
AXI_CHANNELS = ("aw", "w", "b", "ar", "r")


def test_streams_in_arrays_of_interfaces_are_found():
    names = {name for name, _, _ in streams_of(GlobalArbiter(TINY).signature)}
    ports = ("read_request", "read_data", "write_request", "write_data", "write_response")
    assert names == {f"{side}__{port}" for side in ("i_client__0", "i_client__1", "o") for port in ports}


def test_interfaces_with_valid_are_streams():
    bundles = {name: others for name, *others in bundles_of(Barriers(TINY).signature)}
    assert bundles == {
        "issue__expect": ["issue__expect__valid", None, ["issue__expect__barrier", "issue__expect__bytes"]],
        "issue__opened": ["issue__opened__valid", None, ["issue__opened__barrier"]],
        "sized": ["sized__valid", None, ["sized__barrier", "sized__blocks", "sized__ends"]]}


@pytest.mark.parametrize("cfg, prefixes", [(TINY, ["m_axi_"]), (load_config("quad"), [f"m_axi_{core}_" for core in range(4)])])
def test_axi_channels_are_streams(cfg, prefixes):
    bundles = {name: others for name, *others in bundles_of(Top(cfg).signature)}
    assert bundles.keys() == {prefix + channel for prefix in ("s_axil_", *prefixes) for channel in AXI_CHANNELS}
    assert bundles[f"{prefixes[0]}r"] == [f"{prefixes[0]}r{part}" if isinstance(part, str) else [f"{prefixes[0]}r{name}" for name in part]
                                          for part in ("valid", "ready", ("id", "data", "resp", "last"))]


def test_what_is_no_stream():
    """Answers of the other direction are no payload; ``valid`` of a component itself, or without its ``ready``, says nothing."""
    signature = Signature({
        "valid": In(1), "data": In(4), "known_valid": Out(1), "in_stream": In(stream.Signature(8)),
        "port": Out(Signature({"valid": Out(1), "ready": In(1), "grant": In(2), "row": Out(3).array(2)})).array(2)})
    assert bundles_of(signature) == [(f"port__{number}", f"port__{number}__valid", f"port__{number}__ready",
                                      [f"port__{number}__row__{index}" for index in range(2)]) for number in range(2)]


class Wire:
    """In place of a handle."""

    def __init__(self, width, value="0"):
        self.width = width
        self.set(value)

    def set(self, value):
        self.value = LogicArray(value.rjust(self.width, "0"))

    def __len__(self):
        return self.width


@pytest.fixture
def channel():
    """A checker and the wires of its stream: two parts of payload."""
    wires = {"valid": Wire(1), "ready": Wire(1), "low": Wire(2), "high": Wire(3)}
    return StreamChecker(BundleHandles("channel", wires["valid"], wires["ready"], [wires["low"], wires["high"]])), wires


def step(checker, wires, **values):
    for name, value in values.items():
        wires[name].set(value)
    checker.step()


def test_transfers_are_counted(channel):
    checker, wires = channel
    step(checker, wires, low="X")
    step(checker, wires, valid="1", low="01", high="110")
    assert checker.handles.bits() == 0b11001
    step(checker, wires, ready="1")
    step(checker, wires, high="111")
    step(checker, wires, valid="0")
    assert checker.transfers == 2


@pytest.mark.parametrize("values, says", [
    (dict(high="111"), "payload must stay 0x19 until it is accepted: channel: valid 1, ready 0, payload 01, payload 111"),
    (dict(valid="0"), "valid must stay until the item is accepted: channel"),
    (dict(ready="X"), "valid and ready must be known: channel: valid 1, ready X"),
    (dict(valid="Z"), "valid and ready must be known: channel: valid Z"),
    (dict(low="0X"), "payload must be known under valid: channel: valid 1, ready 0, payload 0X")])
def test_broken_rules(channel, values, says):
    checker, wires = channel
    step(checker, wires, valid="1", low="01", high="110")
    step(checker, wires)
    with pytest.raises(AssertionError, match=says):
        step(checker, wires, **values)


def test_a_reset_ends_an_offer(channel):
    checker, wires = channel
    step(checker, wires, valid="1", low="01")
    checker.restart()
    step(checker, wires, low="10")
    step(checker, wires, ready="1")
    assert checker.transfers == 1
