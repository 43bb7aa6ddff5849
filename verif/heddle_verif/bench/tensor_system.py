"""Bench of tensor copies with all that is behind the TMAU: when the first address comes out."""

import cocotb
from cocotb.triggers import RisingEdge
from heddle.interfaces.tensor_operation import tensor_operation_layout
from heddle_sim.golden.tensor_checks import TensorRequest
from heddle_sim.golden.tensor_fields import TensorFields

from ..stimulus.tensor_requests import request_members
from .tmau_system import MEMORY_BYTES, SystemBench


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def tensor_latency(dut):
    """``rank + 5`` cycles from an operation on a tensor whose descriptor is cached to its address on the AXI pins."""
    bench = SystemBench(dut, 0.0)
    await bench.start()
    operations = bench.source("i_tensor", tensor_operation_layout(), pause="none")
    for _ in range(max(bench.cfg.axi_reads, bench.cfg.axi_writes)):
        await RisingEdge(dut.clk)
    for rank in range(1, 6):
        # Rows of their own for each request: a second level has none of them.
        fields = TensorFields(sizes=(128, *[2] * (rank - 1)), strides=tuple(128 * 2 ** d for d in range(rank - 1)),
                              box=(64, *[1] * (rank - 1)), element_strides=(1,) * rank, address=MEMORY_BYTES // 2 + 1024 * rank)
        bench.ram.write(1024 * rank, fields.encode())
        for cached in (False, True):
            request = TensorRequest(coordinates=(64 * cached, *(0,) * (rank - 1)))
            operations.put({"address": 1024 * rank, "request": request_members(request)})
            taken = first = None
            for cycle in range(200):
                await RisingEdge(dut.clk)
                if dut.i_tensor__valid.value and dut.i_tensor__ready.value:
                    taken = cycle
                if dut.m_axi_arvalid.value and first is None:
                    first = cycle
            assert not cached or first - taken == rank + 5, f"rank {rank}: {first - taken} cycles"
    bench.finish()
