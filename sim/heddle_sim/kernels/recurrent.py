"""Programs around the engine for recurrent networks: factor registers are loaded, an image is copied in and run, its outputs go out."""

import numpy as np
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER

from ..isa import assemble
from .launch import Launch

__all__ = ["engine_text", "factor_table", "plan_engine", "plan_factors"]

_OTHER_INSTRUCTIONS = 16        # of a program that loads factor registers
_REGISTERS = BANK_BYTES // 4
_SHARED, _CORE = "ur40", "ur41"


def factor_table(cfg, words):
    """Words int8 [threads, n, dot] as the loads want them in memory: uint8 [loads, threads, 16], the last words zero."""
    per_load = BANK_BYTES // cfg.dot
    loads = -(-words.shape[1] // per_load)
    padded = np.zeros((cfg.threads, loads * per_load, cfg.dot), np.int8)
    padded[:, :words.shape[1]] = words
    return np.ascontiguousarray(padded.reshape(cfg.threads, loads, BANK_BYTES).transpose(1, 0, 2)).view(np.uint8)


def plan_factors(cfg, source, loads):
    """``Launch``es that load factor registers from word 0 on from a ``factor_table`` of ``loads`` rows at a global address.

    Each brings as much as fits shared memory and the instruction memory; a load of 16 bytes a thread meets every bank once.
    Register r0 and r1 of all threads are used.
    """
    row = cfg.threads * BANK_BYTES
    chunk = min(cfg.shared_bytes // row, cfg.instruction_words - _OTHER_INSTRUCTIONS)
    launches = []
    for first in range(0, loads, chunk):
        count = min(chunk, loads - first)
        lines = ["umov ur1, 0", f"barrier.expect b0, {count * row}",
                 f"copy_block.shared.global ur1, ur0, {count * row // BANK_BYTES}, b0",
                 "mov r0, %tid", f"shl r1, r0, {BANK_BYTES.bit_length() - 1}", "segment.shared.b8.d1 ur2, 0", "barrier.wait b0"]
        lines += [f"ld.v4 r{FIRST_FACTOR_REGISTER + _REGISTERS * (first + index)}, ur2:r1:{index * row}" for index in range(count)]
        launches.append(Launch(assemble("\n".join([*lines, "wait.thread", "halt"]) + "\n", cfg), {0: source + first * row}))
    return launches


def engine_text(images, biases=True):
    """Text of the program that runs an ``EngineImage`` on each core, None on those without one [S3.7].

    ur(2 · core) and ur(2 · core + 1) are the global address of the image and that of its outputs. ``biases``: they are made or loaded
    first; they keep their values, so that further images of the same models need not.
    """
    lines = []
    if len(images) > 1:
        lines.append(f"umov {_CORE}, %core")
        for core in range(len(images)):
            lines += [f"usetp.eq up0, {_CORE}, {core}", f"@up0 bra core_{core}"]
    for core, image in enumerate(images):
        lines += [f"core_{core}:"] + (_run_image(core, image, biases) if image else ["halt"])
    return "\n".join(lines) + "\n"


def _run_image(core, image, biases):
    source, outputs = f"ur{2 * core}", f"ur{2 * core + 1}"
    lines = [f"umov {_SHARED}, 0", f"barrier.expect b0, {image.outputs_address}",
             f"copy_block.shared.global {_SHARED}, {source}, {image.outputs_address // BANK_BYTES}, b0", "barrier.wait b0"]
    starts = []
    if biases and image.bias_registers is not None:
        lines += _load_biases(core, image)
    elif biases and image.bias_address is not None:
        starts.append(image.bias_address)
    for address in (*starts, image.address):
        lines += [f"umov {_SHARED}, {address}", f"rnn {_SHARED}"]
    blocks = (len(image.shared) - image.outputs_address) // BANK_BYTES
    return [*lines, f"umov {_SHARED}, {image.outputs_address}", f"copy_block.global.shared {outputs}, {_SHARED}, {blocks}", "wait.copy",
            "halt"]


def _load_biases(core, image):
    """Biases from their table into product registers of all threads; r0, of a sum that is not yet made, is used."""
    segment, row = "ur0" if core else "ur2", 4 * image.words.shape[0]       # a register of another core's addresses
    loads = [f"ld.b32 r{register}, {segment}:r0:{image.bias_address + index * row}" for index, register in enumerate(image.bias_registers)]
    return ["mov r0, %tid", "shl r0, r0, 2", f"segment.shared.b8.d1 {segment}, 0", *loads, "wait.thread"]


def plan_engine(cfg, images, addresses, biases=True):
    """``Launch`` of ``engine_text``; ``addresses`` has for each core (image, room for its outputs) in global memory, or None."""
    uniform = {2 * core + index: address for core, pair in enumerate(addresses) if pair for index, address in enumerate(pair)}
    return Launch(assemble(engine_text(images, biases), cfg), uniform, sum(image.macs for image in images if image))
