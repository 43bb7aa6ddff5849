"""Bench of one lane, driven stage by stage, against numpy."""

from collections import defaultdict

import cocotb
import numpy as np
from amaranth.utils import exact_log2
from cocotb.triggers import RisingEdge
from heddle.constants import PRODUCT_REGISTERS
from heddle.datapath.cross_lane_tree import group_sum_bits
from heddle.datapath.layouts import accumulate_layout, capture_layout, factor_access_layout, product_access_layout
from heddle.datapath.pe import PE
from heddle_sim.toolchain.cocotb_process import bench_config

from ..agents.payload import pack
from ..checkers.stream_rules import input_ports
from ..fixture import Bench

STEPS, LOOK = 1500, 150         # all of them, and how many between two looks at the sums


class LaneBench(Bench):
    """Inputs are planned by cycle (``at``) as fields of the lane's ports; everything that is not planned is zero."""

    def __init__(self, dut):
        super().__init__(dut, PE(bench_config()), idle_limit=None)
        cfg = self.cfg
        self.layouts = {"accumulate__source": accumulate_layout, "files__products": product_access_layout,
                        "files__factors": factor_access_layout(cfg), "files__capture": capture_layout(cfg)}
        self.inputs = [name for name in input_ports(self.signature) if not name.startswith("word__")]
        self.plan = defaultdict(dict)
        self.checks = defaultdict(list)     # cycle to (port, value)
        self.compared = 0
        self.products = self.rng.integers(-(1 << 31), 1 << 31, PRODUCT_REGISTERS, np.int32)
        self.factors = self.rng.integers(0, 256, (cfg.factor_words, cfg.dot), np.uint8)

    def at(self, cycle, port, value=None, **fields):
        if value is not None:
            self.plan[cycle][port] = value
        else:
            planned = self.plan[cycle].setdefault(port, {})
            for name, item in fields.items():
                planned[name] = planned.get(name, 0) | item if isinstance(item, int) else item

    def check(self, cycle, port, value):
        """In that cycle the port must show the value."""
        self.checks[cycle].append((port, value))

    async def run(self, until):
        """Up to the edge that begins cycle ``until``, whose inputs are driven then."""
        while self.cycle < until:
            await RisingEdge(self.dut.clk)
            over = self.cycle - 1
            for port, expected in self.checks.pop(over, ()):
                got = int(getattr(self.dut, port).value)
                assert got == expected, f"cycle {over}: {port} is {got:#x}, expected {expected:#x}"
                self.compared += 1
            planned = self.plan.pop(self.cycle, {})
            for port in self.inputs:
                value = planned.get(port, 0)
                getattr(self.dut, port).value = pack(self.layouts[port], value) if isinstance(value, dict) else value
            limit = 1 << self.cfg.element_bits - 1
            for index in range(self.cfg.dot):
                getattr(self.dut, f"word__{index}").value = planned.get(f"word__{index}", self.random.randrange(-limit, limit))

    async def start(self):
        """Fill all registers with the values of the model."""
        await super().start()
        cycle = self.cycle + 2
        everything = (1 << self.cfg.numbers_per_word) - 1
        for number, word in enumerate(self.factors):
            self.write_factors(cycle, number, everything, int.from_bytes(word.tobytes(), "little"))
            cycle += 1
        for register, value in enumerate(self.products):
            self.give(cycle, int(value) & 0xFFFFFFFF)
            self.write_product(cycle + 1, register)
            cycle += 1
        await self.run(cycle + 2)

    def write_factors(self, cycle, word, parts, value, lane=1):
        self.at(cycle, "files__factors", word=word, write=parts)
        self.at(cycle, "thread__return_data", value)
        self.at(cycle, "thread__write_lane", lane)

    def give(self, cycle, value):
        """The lane keeps a value for a product register, to be written from the next cycle on."""
        self.at(cycle, "thread__return_data", value)
        self.at(cycle, "thread__return_lane", 1)

    def write_product(self, cycle, register, lane=1):
        """Two cycles; there is no step in the second one."""
        self.at(cycle, "files__products", thread_next=1)
        self.at(cycle + 1, "files__products", thread_write=1, write_register=register)
        self.at(cycle + 1, "thread__write_lane", lane)

    def product_read(self, register):
        """Port at which a product register is shown, and its capture."""
        odd = self.cfg.register_pairs and register % 2
        return ("thread__factor", {"odd": 1}) if odd else ("thread__product", {"product": 1})

    def read(self, cycle, port, value, **capture):
        """One cycle after the access the lane is told to show it, and does so in the next cycle."""
        self.at(cycle + 1, "files__capture", **capture)
        self.at(cycle + 1, "thread__read_lane", 1)
        self.check(cycle + 2, port, value)

    async def compare(self):
        """Read all product registers."""
        for register, value in enumerate(self.products):
            cycle = self.cycle + 1 + register
            self.at(cycle, "files__products", thread_register=register)
            port, capture = self.product_read(register)
            self.read(cycle, port, int(value) & 0xFFFFFFFF, **capture)
        await self.run(self.cycle + PRODUCT_REGISTERS + 4)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def steps(dut):
    """Random steps and gaps on few product registers: signs, forwarding, replacing, lanes that do not take part.

    All sums are compared every ``LOOK`` steps: a step with ``clear`` hides what was wrong before it.
    """
    bench = LaneBench(dut)
    await bench.start()
    cfg, choose = bench.cfg, bench.random
    depth = exact_log2(cfg.dot)
    registers, others = [0, 1, 4, 5, 255], range(128, 255)
    sum_bits, group_bits = cfg.sum_bits, group_sum_bits(cfg.sum_bits)
    odd, whole = np.arange(cfg.dot) % 2 == 1, cfg.wide_lanes
    lowest, highest = (np.where(odd, narrow, wide if whole else narrow) for narrow, wide in ((-128, -32768), (256, 65536)))
    word = bench.rng.integers(lowest, highest)
    bench.at(bench.cycle + 1, "take", 1)
    for index, element in enumerate(word):
        bench.at(bench.cycle + 1, f"word__{index}", int(element))
    await bench.run(bench.cycle + 2)
    before = [None, None]           # product registers of the steps one and two cycles ago
    for number in range(STEPS):
        if number % LOOK == 0:
            before = [None, None]
            await bench.run(bench.cycle + 10)
            await bench.compare()
        cycle = bench.cycle + 1
        if choose.random() < 0.15:
            before = [None, before[0]]
            if choose.getrandbits(1):       # the thread unit writes in the place of the step
                value, register, written = choose.getrandbits(32), choose.choice(others), choose.getrandbits(1)
                bench.give(cycle + 3 + depth, value)
                bench.write_product(cycle + 4 + depth, register, written)
                if written:
                    bench.products[register] = value - (value >> 31 << 32)
            await bench.run(cycle)
            continue
        product = choose.choice([choose.choice(registers), choose.randrange(128), 0])
        factor = choose.randrange(cfg.factor_words)
        a_signed, active, zero = choose.getrandbits(2), choose.random() < 0.8, choose.random() < 0.2
        wide, odd_high, scaled = (choose.getrandbits(1) & enabled for enabled in (cfg.wide_lanes, cfg.two_passes, cfg.two_passes))
        if wide:
            halves = bench.factors[factor].view("<i2" if a_signed & 1 else "<u2").astype(np.int64)
            a = np.stack([halves, np.zeros_like(halves)], axis=1).reshape(-1)
        else:
            a = np.where(np.where(odd, a_signed >> 1, a_signed & 1), *(bench.factors[factor].view(kind) for kind in (np.int8, np.uint8)))
        a = np.where(odd & bool(odd_high), a.astype(np.int64) << 16, a)

        bench.at(cycle, "factor_address", factor)
        bench.at(cycle + 1, "multiply__a_signed", a_signed)
        bench.at(cycle + 1, "multiply__wide", wide)
        bench.at(cycle + 1, "multiply__first", 1)       # with the sparse engine: each half of the multipliers takes its own part
        bench.at(cycle + 1, "multiply__second", 1)
        bench.at(cycle + 1 + depth, "odd_high", odd_high)
        bench.at(cycle + 4 + depth, "accumulate__scaled", scaled)
        bench.at(cycle + 1, "multiply__active", int(active))
        if choose.random() < 0.7:       # else the lane keeps its word
            word = bench.rng.integers(lowest, highest)
            bench.at(cycle + 1, "take", 1)
            for index, element in enumerate(word):
                bench.at(cycle + 1, f"word__{index}", int(element))
        b = word
        merged, receive = choose.random() < 0.3, choose.random() < 0.7
        group_sum = choose.randrange(-1 << group_bits - 1, 1 << group_bits - 1) if merged else 0
        bench.at(cycle + 4 + depth, "accumulate__own", int(not merged))
        bench.at(cycle + 5 + depth, "group_sum", group_sum & (1 << group_bits) - 1)
        bench.at(cycle + 5 + depth, "accumulate__receive", int(receive))
        bench.check(cycle + 3 + depth, "root", (int(a @ b) if active else 0) & (1 << sum_bits) - 1)
        bench.at(cycle + 3 + depth, "files__products", matrix_register=product)
        one, two = product == before[0], product == before[1]
        bench.at(cycle + 4 + depth, "accumulate__source", forward_one=int(one), forward_two=int(two and not one),
                 read=int(not (one or two)))
        bench.at(cycle + 4 + depth, "accumulate__clear", int(zero))
        bench.at(cycle + 5 + depth, "files__products", matrix_write=1, write_register=product)

        value = (group_sum if receive else 0) if merged else int(a @ b) << 8 * scaled if active else 0
        total = (0 if zero else int(bench.products[product])) + value
        bench.products[product] = (total + (1 << 31)) % (1 << 32) - (1 << 31)
        before = [product, before[0]]
        await bench.run(cycle)
    await bench.run(bench.cycle + 10)
    await bench.compare()
    assert bench.compared > STEPS // 2 + STEPS // LOOK * PRODUCT_REGISTERS and not bench.checks


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def accesses(dut):
    """Every kind of read and write of the thread unit and of offsets; what is not read is zero."""
    bench = LaneBench(dut)
    await bench.start()
    cfg, choose = bench.cfg, bench.random
    parts = cfg.numbers_per_word
    numbers = bench.factors.reshape(-1).view("<u4")
    products = bench.products.view(np.uint32)
    for _ in range(600):
        cycle = bench.cycle + 1
        kind = choose.choice(["product", "factor", "other lane", "offset", "write", "write factors", *["pair"] * cfg.register_pairs])
        register, number = choose.randrange(PRODUCT_REGISTERS), choose.randrange(cfg.factor_registers)
        read_factor = dict(word=number // parts, read=1)
        one_hot = 1 << number % parts
        if kind == "product":
            bench.at(cycle, "files__products", thread_register=register)
            port, capture = bench.product_read(register)
            bench.read(cycle, port, int(products[register]), **capture, parts=one_hot)
            bench.check(cycle + 2, "thread__product" if port == "thread__factor" else "thread__factor", 0)
        elif kind == "pair":
            bench.at(cycle, "files__products", thread_register=register)
            bench.read(cycle, "thread__product", int(products[register & ~1]), product=1, odd=1, parts=one_hot)
            bench.check(cycle + 2, "thread__factor", int(products[register | 1]))
        elif kind == "factor":
            bench.at(cycle, "files__factors", **read_factor)
            bench.read(cycle, "thread__factor", int(numbers[number]), factor=1, parts=one_hot)
            bench.check(cycle + 2, "thread__product", 0)
        elif kind == "other lane":
            bench.at(cycle, "files__factors", **read_factor)
            second = "odd" if cfg.register_pairs and choose.getrandbits(1) else "factor"
            bench.at(cycle + 1, "files__capture", product=1, **{second: 1}, parts=one_hot)
            bench.check(cycle + 2, "thread__product", 0)
            bench.check(cycle + 2, "thread__factor", 0)
        elif kind == "offset":
            bench.at(cycle, "files__factors", **read_factor)
            bench.at(cycle + 1, "files__capture", offset=1, parts=one_hot)
            bench.at(cycle + 2, "offset_load", 1)
            bench.check(cycle + 3, "offset", int(numbers[number]))
        elif kind == "write":
            value, written = choose.getrandbits(32), choose.getrandbits(1)
            bench.give(cycle, value | choose.getrandbits(8 * cfg.dot) >> 32 << 32)
            bench.write_product(cycle + 1, register, written)
            if written:
                products[register] = value
        else:
            value, mask, written = choose.getrandbits(8 * cfg.dot), choose.getrandbits(parts), choose.getrandbits(1)
            bench.write_factors(cycle, number // parts, mask, value, written)
            for part in range(parts):
                if written and mask >> part & 1:
                    numbers[number // parts * parts + part] = value >> 32 * part & 0xFFFFFFFF
        await bench.run(cycle + 2)
    await bench.run(bench.cycle + 4)
    await bench.compare()
    assert bench.compared > 400 + PRODUCT_REGISTERS and not bench.checks
