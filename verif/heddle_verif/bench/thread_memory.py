"""Global memory around the thread unit in its bench."""

from heddle.constants import BANK_BYTES

__all__ = ["GlobalMemorySide"]


class GlobalMemorySide:
    """The part of ``ThreadBench`` that answers its global port: random delays, one order for all answers, errors beyond the end."""

    def _sample(self, name):
        """Payload of an output stream of the global port when it was transferred; checks that it is stable."""
        valid = bool(self.port(f"global_port__{name}__valid").value)
        ready = bool(self.port(f"global_port__{name}__ready").value)
        payload = self._number(f"global_port__{name}__payload") if valid else None
        if name in self.held:
            assert payload == self.held[name], f"{name} changed before it was accepted"
        self.held.pop(name, None)
        if valid and not ready:
            self.held[name] = payload
        return self.layouts[name].from_bits(payload) if valid and ready else None

    def _request_ready(self, name):
        stalls = self.stalls
        return not (self._pause(stalls.requests) or (stalls.asked and not self.port(f"global_port__{name}__valid").value))

    def _beats(self, request):
        """Addresses of the beats; the end of memory answers with an error."""
        size = self.cfg.axi_bytes
        assert not request.tag, "with several tags answers would have no order"
        assert request.address % size == 0, "a burst begins at a beat"
        assert request.beats_minus_one == 0 or (size < BANK_BYTES and request.address % BANK_BYTES == 0), "more than a vector"
        return [request.address + size * n for n in range(request.beats_minus_one + 1)]

    def _reading(self):
        cfg, dut, stalls = self.cfg, self.dut, self.stalls
        memory = self.state.memory
        if dut.global_port__read_data__valid.value and dut.global_port__read_data__ready.value:
            self.reads.popleft()
            self.read_beat = None
            self.moved += 1
        if (request := self._sample("read_request")) is not None:
            assert not self.pending, "a load overtakes a store"
            addresses = self._beats(request)
            start = self.cycle + self.random.randint(*stalls.latency)
            for address in addresses:
                value = int.from_bytes(memory[address:address + cfg.axi_bytes].tobytes(), "little")
                self.reads.append((start, {"data": value, "tag": request.tag, "last": address == addresses[-1],
                                           "error": address >= len(memory)}))
        dut.global_port__read_request__ready.value = self._request_ready("read_request")
        if self.read_beat is None and self.reads and self.reads[0][0] <= self.cycle and not self._pause(stalls.data):
            self.read_beat = self.reads[0][1]
            dut.global_port__read_data__payload.value = self.layouts["read_data"].const(self.read_beat).as_bits()
        dut.global_port__read_data__valid.value = self.read_beat is not None

    def _writing(self):
        dut, stalls = self.dut, self.stalls
        if dut.global_port__write_response__valid.value and dut.global_port__write_response__ready.value:
            self.response = None
        if (request := self._sample("write_request")) is not None:
            self.write_requests.append(request)
        if (beat := self._sample("write_data")) is not None:
            self.write_beats.append((beat.data, beat.strobe, beat.last))
            self.moved += 1
        if self.write_requests and len(self.write_beats) > self.write_requests[0].beats_minus_one:
            request = self.write_requests.popleft()
            count = request.beats_minus_one + 1
            beats, self.write_beats = self.write_beats[:count], self.write_beats[count:]
            self.responses.append((self.cycle + self.random.randint(*stalls.latency), request, beats))
            self.most_stores = max(self.most_stores, len(self.responses) + (self.response is not None))
        dut.global_port__write_request__ready.value = self._request_ready("write_request")
        dut.global_port__write_data__ready.value = not self._pause(stalls.data)
        if self.response is None and self.responses and self.responses[0][0] <= self.cycle and not self._pause(stalls.responses):
            _, request, beats = self.responses.popleft()
            self.response = {"tag": request.tag, "error": self._store(request, beats)}
            dut.global_port__write_response__payload.value = self.layouts["write_response"].const(self.response).as_bits()
        dut.global_port__write_response__valid.value = self.response is not None

    def _store(self, request, beats):
        """Stores take effect when they are acknowledged, so that a load that does not wait reads old data."""
        memory, error = self.state.memory, False
        for address, (value, strobe, last) in zip(self._beats(request), beats, strict=True):
            assert last == (address == self._beats(request)[-1]), "last beat is marked wrongly"
            error |= address >= len(memory)
            for i in range(self.cfg.axi_bytes):
                if strobe >> i & 1 and address + i < len(memory):
                    memory[address + i] = value >> 8 * i & 0xFF
        return error
