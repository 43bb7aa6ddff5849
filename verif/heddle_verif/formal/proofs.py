"""All proofs, by name: ``python -m heddle_verif.formal.proofs [name …]`` runs them and prints a table."""

import sys

from heddle.lib.register_slice import SliceMode
from heddle.processes import exit_when_terminated

from .addresses import ExtentSpec, RequestRangeSpec
from .arbiter import GlobalArbiterSpec
from .axi_master import AxiMasterSpec
from .bank_port import BankPortSpec, SharedMemorySpec
from .block_copies import BlockRangeSpec, SharedDmaSpec
from .compiled_offsets import AddressGeneratorSpec, OffsetMemorySpec
from .copies import BurstGeneratorSpec, RowExpanderSpec
from .dispatch import DispatchSpec
from .gathers import OffsetFetchSpec
from .l2 import LookupSpec, PendingWritesSpec
from .prove import Proof, ProofFailure, run_proof
from .register_slice import RegisterSliceSpec
from .rnn import BankReaderSpec, ContextArbiterSpec, OutputWriterSpec
from .round_robin import RoundRobinSpec
from .run import RunControlSpec
from .scoreboard import ScoreboardSpec
from .shared_bank import SharedBankSpec
from .sparse import ElementWindowSpec
from .step_sequencer import StepSequencerSpec
from .stream import StreamSpec
from .tensor_copies import BarrierUpdatesSpec, BoxWalkSpec, BurstRequestSpec, RowBurstsSpec, TransactionTableSpec
from .tile_scheduler import TileSchedulerSpec
from .tmau_ports import BeatWriterSpec, ReadMergeSpec, WriteMergeSpec

__all__ = ["PROOFS", "main"]

_STREAM = "order, nothing lost or doubled, capacity, stream rules"
_TURNS = "nothing lost, every input in its turn, stream rules"
_SCOREBOARD = "no register group held by both units, instructions in flight are not lost"
_SHARED = "each request is answered once, in order, within a bound of cycles, "
_WRITES = "requests join without loss, each has its acknowledgement, stream rules"
_CONTENTS = "a read sees what was acknowledged before it"
_ENTRIES = "entries are those written last, beyond where there are none, "
_GATHERS = "each micro-operation of a gather has the entry of its place, for each group, none is left, "
_ADDRESSES = "words in the order of their groups, each once, at the address of their entry; the first error, after it only the end, "
_RANGE = "requests stay in a tensor that ends in memory; nothing wraps"
_TILES = "every number once, in order, to a core that asked; none waits for more than one number of each other"
_ARBITER = "stream rules, order of write data, routing of answers"

PROOFS = {proof.name: proof for proof in (
    Proof(name="slice_full", make=lambda: RegisterSliceSpec(SliceMode.FULL), says=_STREAM, bounded=6, cover=8, unbounded="pdr"),
    Proof(name="slice_forward", make=lambda: RegisterSliceSpec(SliceMode.FORWARD, clears=True), says=_STREAM + "; clear",
          bounded=6, cover=8, unbounded="pdr"),
    Proof(name="slice_reverse", make=lambda: RegisterSliceSpec(SliceMode.REVERSE, clears=True), says=_STREAM + "; clear",
          bounded=6, cover=8, unbounded="pdr"),
    Proof(name="queue_2", make=lambda: StreamSpec(2), says=_STREAM, bounded=6, cover=8, unbounded="pdr"),
    Proof(name="queue_3", make=lambda: StreamSpec(3), says=_STREAM, bounded=6, cover=12, unbounded="pdr"),
    Proof(name="queue_5", make=lambda: StreamSpec(5), says=_STREAM, bounded=6, cover=15, unbounded="pdr"),
    Proof(name="queue_5_block", make=lambda: StreamSpec(5, distributed_rows=2), says=_STREAM + "; synchronous read", bounded=6, cover=15,
          unbounded="pdr"),
    Proof(name="queue_3_unregistered", make=lambda: StreamSpec(3, registered=False), says=_STREAM, bounded=6, cover=12, unbounded="pdr"),
    Proof(name="round_robin_2", make=lambda: RoundRobinSpec(2, False), says=_TURNS, bounded=6, cover=8, unbounded="pdr"),
    Proof(name="round_robin_3", make=lambda: RoundRobinSpec(3, False), says=_TURNS, bounded=6, cover=8, unbounded="pdr"),
    Proof(name="round_robin_packets", make=lambda: RoundRobinSpec(3, True), says=_TURNS + "; packets stay together", bounded=6, cover=8,
          unbounded="pdr"),
    Proof(name="scoreboard_4", make=lambda: ScoreboardSpec(4), says=_SCOREBOARD + ", 4 in flight", bounded=4, cover=12,
          unbounded="pdr", nightly=True),
    Proof(name="scoreboard_6", make=lambda: ScoreboardSpec(6), says=_SCOREBOARD + ", 6 in flight", bounded=6, cover=12, unbounded="pdr",
          soak=True),
    Proof(name="dispatch", make=DispatchSpec, says="every instruction leaves issue once, in order, none is lost at a stop", bounded=5,
          cover=8, unbounded="pdr", nightly=True),
    Proof(name="dispatch_slices", make=lambda: DispatchSpec(1), says="the same with register slices", bounded=5, cover=8,
          unbounded="pdr", nightly=True),
    Proof(name="element_window", make=ElementWindowSpec, says="every non-zero of a job leaves once, in order, and no other", bounded=8,
          cover=10, unbounded="pdr", nightly=True),
    Proof(name="step_sequencer", make=StepSequencerSpec, says="steps multiply every non-zero of the rows once, in order, rows leave whole",
          bounded=8, cover=14, unbounded="pdr", nightly=True),
    Proof(name="shared_bank", make=SharedBankSpec, says="one grant, fixed priority, the granted row is accessed, contents", bounded=3,
          cover=6, unbounded="pdr", nightly=True),
    Proof(name="bank_port", make=BankPortSpec, says="each bank of a request grants once, order, ready from a register", bounded=5, cover=8,
          unbounded="pdr"),
    Proof(name="shared_memory", make=lambda: SharedMemorySpec(2, 8), says=_SHARED + "patience 2", bounded=8, cover=14,
          unbounded="pdr", nightly=True),
    Proof(name="shared_memory_4", make=lambda: SharedMemorySpec(4, 8), says=_SHARED + "patience 4", bounded=8, cover=14,
          unbounded="pdr", nightly=True),
    Proof(name="shared_memory_bus", make=lambda: SharedMemorySpec(2, 1, writers=2), says=_SHARED + "one bus for writes, patience 2",
          bounded=8, cover=14, unbounded="pdr", nightly=True),
    Proof(name="shared_memory_contents", make=lambda: SharedMemorySpec(2, 8, contents=True), says=_CONTENTS, bounded=3, cover=6,
          unbounded="pdr", nightly=True),
    Proof(name="shared_memory_bus_contents", make=lambda: SharedMemorySpec(2, 1, writers=2, contents=True),
          says=_CONTENTS + ", one bus for writes", bounded=3, cover=6, unbounded="pdr", nightly=True),
    Proof(name="axi_master", make=AxiMasterSpec, says="AXI4 channel rules, 4 KiB, wlast, answers taken", bounded=5, cover=8,
          unbounded="pdr", nightly=True),
    Proof(name="arbiter_4", make=lambda: GlobalArbiterSpec(4), says=_ARBITER + ", 4 writes ahead", bounded=5, cover=10, unbounded="pdr"),
    Proof(name="arbiter", make=GlobalArbiterSpec, says=_ARBITER, bounded=6, cover=16, unbounded="pdr", soak=True, limit_s=800),
    Proof(name="l2_pending", make=PendingWritesSpec, says="every pending line is reported until its turn to leave", bounded=8, cover=12,
          unbounded="pdr"),
    Proof(name="l2_lookup", make=LookupSpec, says="no fill while a write is pending, hits are where fills went, each request once",
          bounded=6, cover=14, unbounded="pdr", nightly=True),
    Proof(name="row_expander", make=RowExpanderSpec, says="number and addresses of rows, stream rules", bounded=3, cover=8,
          unbounded="pdr", nightly=True),
    Proof(name="block_range", make=BlockRangeSpec, says="copies that pass lie in their memories; none is dropped", bounded=2, cover=4,
          unbounded="pdr", nightly=True),
    Proof(name="local_dma_shared", make=SharedDmaSpec, says="reads and writes are those of the copy, in order, all of them", bounded=8,
          cover=14, unbounded="no", nightly=True),
    Proof(name="burst_generator_64", make=lambda: BurstGeneratorSpec(64), says="bursts cover the transfer, never cross 512 bytes",
          bounded=5, cover=6, unbounded="pdr"),
    Proof(name="burst_generator_512", make=lambda: BurstGeneratorSpec(512), says="bursts cover the transfer, never cross 512 bytes",
          bounded=5, cover=6, unbounded="pdr"),
    Proof(name="box_walk_tile", make=lambda: BoxWalkSpec(False), says="all rows of a tile, each at its place, the last one marked",
          bounded=4, cover=10, unbounded="pdr", soak=True, limit_s=1600),
    Proof(name="box_walk_pixels", make=lambda: BoxWalkSpec(True), says="all pixels of a column, the last one marked", bounded=4, cover=10,
          unbounded="pdr", nightly=True),
    Proof(name="row_bursts", make=RowBurstsSpec, says="pieces cover the shared memory of a box and nothing else, one line each", bounded=4,
          cover=8, unbounded="pdr", nightly=True, limit_s=800),
    Proof(name="tensor_extent", make=ExtentSpec, says="a tensor that passes has no element behind memory, whatever overflows", bounded=5,
          cover=8, unbounded="pdr", nightly=True),
    Proof(name="tensor_range", make=RequestRangeSpec, says=_RANGE, bounded=7, cover=7, unbounded="no", nightly=True, limit_s=800),
    Proof(name="tensor_range_strided", make=lambda: RequestRangeSpec((2, 3, 1)), says=_RANGE + "; traversal strides", bounded=7, cover=7,
          unbounded="no", soak=True, limit_s=800),
    Proof(name="tensor_range_pixels", make=lambda: RequestRangeSpec((1, 2, 1), pixels=True), says=_RANGE + "; pixels of a column",
          bounded=7, cover=7, unbounded="no", soak=True, limit_s=800),
    Proof(name="transaction_table", make=TransactionTableSpec, says="every transfer completes, once, in order, after its last answer",
          bounded=8, cover=12, unbounded="pdr", nightly=True),
    Proof(name="barrier_updates", make=BarrierUpdatesSpec, says="no byte lost, doubled or told to another barrier; sums never wrap",
          bounded=6, cover=8, unbounded="pdr", nightly=True),
    Proof(name="burst_request", make=BurstRequestSpec, says="a request for every burst, in order, stream rules", bounded=5, cover=5,
          unbounded="induction 3"),
    Proof(name="read_merge", make=ReadMergeSpec, says="requests join without loss, each reader has its words, stream rules", bounded=5,
          cover=6, unbounded="pdr", nightly=True),
    Proof(name="write_merge", make=lambda: WriteMergeSpec(8), says=_WRITES, bounded=5, cover=5, unbounded="pdr"),
    Proof(name="write_merge_1", make=lambda: WriteMergeSpec(1), says=_WRITES + "; one bus", bounded=5, cover=5, unbounded="pdr"),
    Proof(name="beat_writer", make=BeatWriterSpec, says="each beat is reported once, in order, after its acknowledgement; credits",
          bounded=6, cover=8, unbounded="pdr", nightly=True),
    Proof(name="context_arbiter", make=lambda: ContextArbiterSpec(4),
          says="one ready context is chosen, and none twice before one that waits",
          bounded=6, cover=6, unbounded="pdr"),
    Proof(name="context_arbiter_3", make=lambda: ContextArbiterSpec(3), says="the same with three contexts", bounded=6, cover=6,
          unbounded="pdr"),
    Proof(name="bank_reader", make=BankReaderSpec, says="words in order, each once, never more requested than there is room for",
          bounded=6, cover=14, unbounded="pdr"),
    Proof(name="output_writer", make=lambda: OutputWriterSpec(8), says="requests of each item, a bounded number without acknowledgement",
          bounded=5, cover=12, unbounded="pdr"),
    Proof(name="output_writer_bus", make=lambda: OutputWriterSpec(1), says="the same with one bus for writes", bounded=5, cover=12,
          unbounded="pdr"),
    Proof(name="offset_memory", make=lambda: OffsetMemorySpec(4, 4), says=_ENTRIES + "dot 4, also by byte", bounded=4, cover=5,
          unbounded="pdr", nightly=True),
    Proof(name="offset_memory_8", make=lambda: OffsetMemorySpec(8, 8), says=_ENTRIES + "dot 8, also by byte", bounded=4, cover=5,
          unbounded="pdr", nightly=True),
    Proof(name="offset_memory_16", make=lambda: OffsetMemorySpec(16, 4), says=_ENTRIES + "dot 16", bounded=3, cover=5, unbounded="pdr"),
    Proof(name="offset_fetch_4", make=lambda: OffsetFetchSpec(4), says=_GATHERS + "dot 4", bounded=5, cover=14, unbounded="pdr",
          nightly=True),
    Proof(name="offset_fetch_8", make=lambda: OffsetFetchSpec(8), says=_GATHERS + "dot 8", bounded=5, cover=14, unbounded="pdr",
          nightly=True),
    Proof(name="address_generator_1", make=lambda: AddressGeneratorSpec(1), says=_ADDRESSES + "1 fetch slot", bounded=3, cover=6,
          unbounded="pdr", nightly=True),
    Proof(name="address_generator_2", make=lambda: AddressGeneratorSpec(2), says=_ADDRESSES + "2 fetch slots", bounded=4, cover=6,
          unbounded="pdr", soak=True),
    Proof(name="address_generator_4", make=lambda: AddressGeneratorSpec(4), says=_ADDRESSES + "4 fetch slots, also by byte", bounded=3,
          cover=6, unbounded="pdr", nightly=True),
    Proof(name="tile_scheduler_2", make=lambda: TileSchedulerSpec(2), says=_TILES, bounded=8, cover=10, unbounded="pdr"),
    Proof(name="tile_scheduler_4", make=lambda: TileSchedulerSpec(4), says=_TILES, bounded=8, cover=12, unbounded="pdr"),
    Proof(name="run_control", make=RunControlSpec, says="one run a doorbell, every run ends, the first error is kept", bounded=8,
          cover=20, unbounded="pdr"),
    Proof(name="run_control_2", make=lambda: RunControlSpec(2), says="the same with two cores", bounded=8, cover=20, unbounded="pdr",
          nightly=True),
)}


def main(arguments=None):
    """Run the proofs named (all without a name); 1 when one fails."""
    names = arguments if arguments is not None else sys.argv[1:]
    failed = 0
    for name in names or PROOFS:
        proof = PROOFS[name]
        try:
            seconds = run_proof(proof)
            result = "proved" if proof.unbounded != "no" else f"holds for {proof.bounded} cycles"
            print(f"{name:22}{result:12}{proof.unbounded:12} bounded {proof.bounded}, covers {proof.cover}  {seconds}", flush=True)
        except ProofFailure as failure:
            failed = 1
            print(failure, flush=True)
    return failed


if __name__ == "__main__":
    exit_when_terminated()
    sys.exit(main())
