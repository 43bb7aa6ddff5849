"""Bench of one lane, driven stage by stage, against numpy."""

import random
from collections import defaultdict

import cocotb
import numpy as np
from amaranth.utils import exact_log2
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from heddle.config import PRODUCT_BANKS, PRODUCT_REGISTERS
from heddle.datapath.lane_sums import group_sum_bits
from heddle.datapath.layouts import accumulate_layout, bank_access_layout, capture_layout, factor_access_layout
from heddle_sim.harness import bench_config

INPUTS = ("factor_address", "take", "a_signed", "active", "merged", "group_sum", "receive", "accumulate", "clear", "access",
          "factor_access", "write_lane", "capture", "offset_load", "returned", "return_words", "return_lane")


class LaneBench:
    """Inputs are planned by cycle (``at``) as fields of the lane's ports; everything that is not planned is zero."""

    def __init__(self, dut):
        self.dut = dut
        self.cfg = cfg = bench_config()
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.rng = np.random.default_rng(cocotb.RANDOM_SEED)
        self.layouts = {"accumulate": accumulate_layout, "access": bank_access_layout,
                        "factor_access": factor_access_layout(cfg), "capture": capture_layout(cfg)}
        self.inputs = [*INPUTS, *["odd_high", "scaled"] * cfg.two_passes, *["wide"] * cfg.wide_lanes]
        self.plan = defaultdict(dict)
        self.checks = []            # (cycle, port, value)
        self.cycle = self.compared = 0
        self.products = self.rng.integers(-(1 << 31), 1 << 31, PRODUCT_REGISTERS, np.int32)
        self.factors = self.rng.integers(0, 256, (cfg.factor_words, cfg.dot), np.uint8)

    def at(self, cycle, port, value=None, **fields):
        if value is not None:
            self.plan[cycle][port] = value
        else:
            planned = self.plan[cycle].setdefault(port, {})
            for name, item in fields.items():
                planned[name] = planned.get(name, 0) | item if isinstance(item, int) else item

    def rows(self, name, bank, row, cycle):
        rows = self.plan[cycle].setdefault("access", {}).setdefault(name, [0] * PRODUCT_BANKS)
        rows[bank] = row

    async def run(self, until):
        while self.cycle < until:
            await RisingEdge(self.dut.clk)
            for cycle, port, expected in [check for check in self.checks if check[0] == self.cycle]:
                got = int(getattr(self.dut, port).value)
                assert got == expected, f"cycle {cycle}: {port} is {got:#x}, expected {expected:#x}"
                self.compared += 1
            self.cycle += 1
            planned = self.plan.pop(self.cycle, {})
            for port in self.inputs:
                value = planned.get(port, 0)
                if isinstance(value, dict):
                    value = self.layouts[port].const(value).as_bits()
                getattr(self.dut, port).value = value
            limit = 1 << self.cfg.element_bits - 1
            for index in range(self.cfg.dot):
                getattr(self.dut, f"word__{index}").value = planned.get(f"word__{index}", self.random.randrange(-limit, limit))

    async def start(self):
        """Fill all registers with the values of the model."""
        Clock(self.dut.clk, 10, unit="ns").start()
        cfg, cycle = self.cfg, 2
        chunks = 16 // cfg.dot
        everything = (1 << cfg.numbers_per_word) - 1
        quads = self.factors.reshape(-1, 16)
        for number, quad in enumerate(quads):
            self.give(cycle, int.from_bytes(quad.tobytes(), "little"))
            for chunk in range(chunks):
                self.at(cycle + 1 + chunk, "factor_access", word=number * chunks + chunk, write=everything, chunk=chunk)
                self.at(cycle + 1 + chunk, "write_lane", 1)
            cycle += 1 + chunks
        for row, quad in enumerate(self.products.reshape(-1, 4)):
            self.give(cycle, int.from_bytes(quad.tobytes(), "little"))
            for bank in range(PRODUCT_BANKS):
                self.rows("write_row", bank, row, cycle + 1)
            self.at(cycle + 1, "access", thread_write=15)
            self.at(cycle + 1, "write_lane", 1)
            cycle += 2
        await self.run(cycle)

    def give(self, cycle, value):
        self.at(cycle, "returned", value)
        self.at(cycle, "return_words", 15)
        self.at(cycle, "return_lane", 1)

    async def compare(self):
        """Read all product registers, four at a time."""
        for row, quad in enumerate(self.products.reshape(-1, 4)):
            cycle = self.cycle + 1 + row
            for bank in range(PRODUCT_BANKS):
                self.rows("read_row", bank, row, cycle)
            self.at(cycle + 1, "capture", quad=15)
            self.checks.append((cycle + 2, "operand", int.from_bytes(quad.tobytes(), "little")))
        await self.run(self.cycle + 70)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def steps(dut):
    """Random steps and gaps on few product registers: signs, forwarding, replacing, lanes that do not take part."""
    bench = LaneBench(dut)
    await bench.start()
    cfg, choose = bench.cfg, bench.random
    depth = exact_log2(cfg.dot)
    registers = [0, 1, 4, 5, 255]
    sum_bits, group_bits = cfg.sum_bits, group_sum_bits(cfg.sum_bits)
    odd, whole = np.arange(cfg.dot) % 2 == 1, cfg.wide_lanes
    lowest, highest = (np.where(odd, narrow, wide if whole else narrow) for narrow, wide in ((-128, -32768), (256, 65536)))
    word = bench.rng.integers(lowest, highest)
    bench.at(bench.cycle + 1, "take", 1)
    for index, element in enumerate(word):
        bench.at(bench.cycle + 1, f"word__{index}", int(element))
    await bench.run(bench.cycle + 2)
    before = [None, None]           # product registers of the steps one and two cycles ago
    for _ in range(1500):
        cycle = bench.cycle + 1
        if choose.random() < 0.15:
            before = [None, before[0]]
            await bench.run(cycle)
            continue
        product = choose.choice([choose.choice(registers), choose.randrange(PRODUCT_REGISTERS), 0])
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
        bench.at(cycle + 1, "a_signed", a_signed)
        bench.at(cycle + 1, "wide", wide)
        bench.at(cycle + 1 + depth, "odd_high", odd_high)
        bench.at(cycle + 4 + depth, "scaled", scaled)
        bench.at(cycle + 1, "active", int(active))
        if choose.random() < 0.7:       # else the lane keeps its word
            word = bench.rng.integers(lowest, highest)
            bench.at(cycle + 1, "take", 1)
            for index, element in enumerate(word):
                bench.at(cycle + 1, f"word__{index}", int(element))
        b = word
        merged, receive = choose.random() < 0.3, choose.random() < 0.7
        group_sum = choose.randrange(-1 << group_bits - 1, 1 << group_bits - 1) if merged else 0
        bench.at(cycle + 4 + depth, "merged", int(merged))
        bench.at(cycle + 5 + depth, "group_sum", group_sum & (1 << group_bits) - 1)
        bench.at(cycle + 5 + depth, "receive", int(receive))
        bench.checks.append((cycle + 3 + depth, "root", (int(a @ b) if active else 0) & (1 << sum_bits) - 1))
        bank, row = product % PRODUCT_BANKS, product // PRODUCT_BANKS
        bench.rows("read_row", bank, row, cycle + 3 + depth)
        one, two = product == before[0], product == before[1]
        bench.at(cycle + 4 + depth, "accumulate", forward_one=int(one), forward_two=int(two and not one),
                 banks=0 if one or two else 1 << bank)
        bench.at(cycle + 4 + depth, "clear", int(zero))
        bench.rows("write_row", bank, row, cycle + 5 + depth)
        bench.at(cycle + 5 + depth, "access", matrix_write=1 << bank)

        value = (group_sum if receive else 0) if merged else int(a @ b) << 8 * scaled if active else 0
        total = (0 if zero else int(bench.products[product])) + value
        bench.products[product] = (total + (1 << 31)) % (1 << 32) - (1 << 31)
        before = [product, before[0]]
        await bench.run(cycle)
    await bench.run(bench.cycle + 10)
    await bench.compare()
    assert bench.compared > 1000 + PRODUCT_REGISTERS // PRODUCT_BANKS


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def captures(dut):
    """Every kind of read into every place, and masked writes of single banks and parts."""
    bench = LaneBench(dut)
    await bench.start()
    cfg, choose = bench.cfg, bench.random
    numbers = bench.factors.reshape(-1).view("<u4")
    words = [int(word) for word in bench.products.view(np.uint32)[-4:]]      # what the filling left in the operand
    for _ in range(400):
        cycle = bench.cycle + 1
        place = choose.choice([0, 1, 2, 3, "address", "offset"])
        if place != "offset" and choose.getrandbits(1):
            register = choose.randrange(PRODUCT_REGISTERS)
            value = int(bench.products.view(np.uint32)[register])
            bench.rows("read_row", register % 4, register // 4, cycle)
            bench.at(cycle + 1, "capture", banks=1 << register % 4)
        else:
            number = choose.randrange(cfg.factor_registers)
            value = int(numbers[number])
            bench.at(cycle, "factor_access", word=number // cfg.numbers_per_word, read=1)
            bench.at(cycle + 1, "capture", parts=1 << number % cfg.numbers_per_word)
        if place == "address":
            bench.at(cycle + 1, "capture", address=1)
            bench.checks.append((cycle + 2, "address", value))
        elif place == "offset":
            bench.at(cycle + 1, "capture", offset=1)
            bench.at(cycle + 2, "offset_load", 1)
            bench.checks.append((cycle + 3, "offset", value))
        else:
            bench.at(cycle + 1, "capture", words=1 << place)
            words[place] = value
        if place in ("address", "offset") and choose.getrandbits(1):
            # A result may return while an address or an offset is captured.
            data, mask, taken = choose.getrandbits(128), choose.getrandbits(4), choose.getrandbits(1)
            bench.at(cycle + 1, "returned", data & sum(0xFFFFFFFF << 32 * j for j in range(4) if mask >> j & 1))
            bench.at(cycle + 1, "return_words", mask)
            bench.at(cycle + 1, "return_lane", taken)
            words = [data >> 32 * j & 0xFFFFFFFF if taken and mask >> j & 1 else word for j, word in enumerate(words)]
        bench.checks.append((cycle + 2, "operand", sum(word << 32 * j for j, word in enumerate(words))))
        # Write some of it back elsewhere.
        written, row, banks = choose.getrandbits(1), choose.randrange(64), choose.getrandbits(4)
        bench.at(cycle + 2, "access", thread_write=banks)
        bench.at(cycle + 2, "write_lane", written)
        parts, word, chunk = choose.getrandbits(cfg.numbers_per_word), choose.randrange(cfg.factor_words), choose.randrange(16 // cfg.dot)
        bench.at(cycle + 2, "factor_access", word=word, write=parts, chunk=chunk)
        for bank in range(4):
            bench.rows("write_row", bank, row, cycle + 2)
            if written and banks >> bank & 1:
                bench.products.view(np.uint32)[4 * row + bank] = words[bank]
        for part in range(cfg.numbers_per_word):
            if written and parts >> part & 1:
                numbers[word * cfg.numbers_per_word + part] = words[chunk * cfg.numbers_per_word + part]
        await bench.run(cycle + 2)
    await bench.run(bench.cycle + 4)
    await bench.compare()
    assert bench.compared > 400
