"""Widths and sizes that follow from the parameters."""

from amaranth.utils import ceil_log2, exact_log2

from .constants import BANK_BYTES, FIRST_FACTOR_REGISTER, LINE_BYTES, ROW_BYTES

__all__ = ["DerivedParameters"]


class DerivedParameters:
    """What ``Config`` knows beside its fields; every width of the hardware comes from here."""

    @property
    def core_bits(self):
        """Bits of the number of a core, at least one."""
        return max(ceil_log2(self.cores), 1)

    # -- arithmetic -------------------------------------------------------------------------

    @property
    def peak_macs_per_cycle(self):
        """8-bit multiply-accumulates per cycle of the whole device."""
        return self.cores * self.threads * self.dot

    def peak_macs(self, element_bytes):
        """Multiply-accumulates per cycle of the whole device with integers of one or two bytes."""
        return self.peak_macs_per_cycle // (1 if element_bytes == 1 else 2 * self.passes(element_bytes))

    def passes(self, element_bytes):
        """Steps of the lanes for one factor word of integers of one or two bytes."""
        return 1 if element_bytes == 1 or self.wide_lanes else 2

    @property
    def two_passes(self):
        """``mm16`` multiplies bytes, in two passes."""
        return self.mm16 and not self.wide_lanes

    @property
    def thread_bits(self):
        return exact_log2(self.threads)

    @property
    def word_bits(self):
        """Bits of a factor word, and of the word that is broadcast: ``dot`` bytes."""
        return 8 * self.dot

    @property
    def sum_bits(self):
        """Bits of a lane's dot product: ``dot`` products of 9 x 9 bit signed, exact; with ``mm16`` modulo 2^32."""
        return 32 if self.mm16 else 18 + exact_log2(self.dot)

    @property
    def element_bits(self):
        """Bits of an element of B as it is broadcast, signed."""
        return 17 if self.wide_lanes else self.engine_element_bits if self.rnn else 9

    @property
    def engine_element_bits(self):
        """Bits of an element as the engine for recurrent networks multiplies it, signed: of two vectors, or of their difference."""
        return 16 + self.rnn_differences

    @property
    def positions(self):
        """Lanes of the largest group that merges of ``mm`` form."""
        return min(16, self.threads)

    @property
    def word_index_bits(self):
        """Bits of the number of a word of ``dot`` bytes of a column: 16 slices of four words, or of one for each thread."""
        return 4 + max(2, self.thread_bits)

    @property
    def fetch_slots(self):
        """Words of B that are fetched together: no more than the positions of a group."""
        return min(self.fetch_words, self.positions)

    @property
    def piece_slots(self):
        """Rows of transposed B that are fetched together, 16 bytes of each."""
        return min(self.fetch_slots, self.dot)

    # -- registers --------------------------------------------------------------------------

    @property
    def numbers_per_word(self):
        """32-bit register numbers per factor word."""
        return self.dot // 4

    @property
    def factor_registers(self):
        """32-bit register numbers that the factor register file of a lane holds."""
        return self.factor_words * self.dot // 4

    @property
    def registers(self):
        """Register numbers that exist: product registers, then factor registers."""
        return FIRST_FACTOR_REGISTER + self.factor_registers

    @property
    def factor_address_bits(self):
        return exact_log2(self.factor_words)

    @property
    def thread_groups(self):
        """Groups of ``thread_slots`` threads that take turns."""
        return self.threads // min(self.thread_slots, self.threads)

    @property
    def slot_multipliers(self):
        """Multipliers that the slots share: at most one for each slot."""
        return min(self.thread_multipliers, self.thread_slots, self.threads)

    @property
    def thread_overlap(self):
        """The thread unit reads registers of the next operation, and writes those of the one before, while it executes one: worth its
        area where groups are so large that an operation takes few cycles."""
        return min(self.thread_slots, self.threads) >= 4

    @property
    def lane_registers(self):
        """Cycles by which everything reaches the lanes later."""
        return int(self.far_registers)

    @property
    def register_read_latency(self):
        """Cycles from the grant of a read of the thread unit to its data: there is a register on the way back too."""
        return 2 + 2 * self.lane_registers

    @property
    def late_address_checks(self):
        """A step of a load or store goes ahead while its addresses are checked, and is dropped where one is wrong."""
        return self.far_registers and not self.thread_overlap

    @property
    def banks_known_ahead(self):
        """The fetch of B says a cycle ahead which bank it asks for: the thread unit knows then which of its requests wait. Where nothing
        that reads or writes shared memory asks for more than one bank at a time."""
        single_reads = (self.fetch_slots == 1 and min(self.thread_slots, self.threads) == 1 and self.axi_data_bits <= 8 * BANK_BYTES
                        and not self.rnn)
        return self.far_registers and single_reads and self.shared_writes == 1

    @property
    def asks_in_pauses(self):
        """The fetch of B asks for its banks in a pause too, takes nothing and asks again: a pause, of one cycle, concerns no one else."""
        return self.far_registers and not self.issue_ahead

    @property
    def words_voided(self):
        """That a word of B has an error is told beside it, not instead of it: it comes too late for who wants to know the bank ahead."""
        return self.banks_known_ahead and not self.transpose

    @property
    def single_bank_beats(self):
        """A beat of the bus lies in one bank, and what its grant decides is known late: it waits or comes again without a register of its
        own that hangs on the grant."""
        return self.far_registers and self.axi_data_bits <= 8 * BANK_BYTES

    @property
    def registered_alu(self):
        """The ALUs of the thread unit give their results a cycle later."""
        return self.far_registers and not self.thread_overlap

    # -- memories ---------------------------------------------------------------------------

    @property
    def shared_bytes(self):
        return self.shared_memory_kib * 1024

    @property
    def shared_address_bits(self):
        return exact_log2(self.shared_bytes)

    @property
    def shared_rows(self):
        return self.shared_bytes // ROW_BYTES

    @property
    def row_bits(self):
        return exact_log2(self.shared_rows)

    @property
    def program_counter_bits(self):
        return exact_log2(self.instruction_words)

    # -- recurrent networks -----------------------------------------------------------------

    @property
    def tail_lanes(self):
        """Sums that the tail of the engine for recurrent networks takes in a cycle: those of a group of threads."""
        return min(self.thread_slots, self.threads)

    @property
    def engine_sum_latency(self):
        """Cycles from a step of the engine to a read of registers that sees its sums."""
        return 4 + exact_log2(self.dot)

    @property
    def vector_lanes(self):
        """Elements of a word of its vector memory: no fewer than 16 bytes of shared memory hold."""
        return max(self.dot, self.tail_lanes, BANK_BYTES // 2)

    # -- AXI --------------------------------------------------------------------------------

    @property
    def line_beats(self):
        """Beats of a line of the second-level cache."""
        return LINE_BYTES // self.axi_bytes

    @property
    def axi_bytes(self):
        return self.axi_data_bits // 8

    @property
    def tag_bits(self):
        """Bits of a client's request tag; the two behind those of the reads are for the halves of a tensor's descriptor; one bit more where
        copies within a memory are a client of their own."""
        return max(ceil_log2(self.axi_reads + 2 * self.tensors), ceil_log2(self.axi_writes), 1) + self.copy_within

    @property
    def prefetches(self):
        """Prefetches have an effect."""
        return self.tensors and self.l2_kib > 0

    @property
    def transfer_blocks(self):
        """Blocks of 16 bytes of the largest load, store or prefetch."""
        return max(self.shared_bytes // BANK_BYTES, self.prefetched_blocks)

    @property
    def prefetched_blocks(self):
        """Blocks of 16 bytes that ``prefetch_block`` asks for at most: all of the second level; 0 where prefetches have no effect."""
        return (self.l2_kib << 10) // BANK_BYTES if self.prefetches else 0

    @property
    def axi_id_bits(self):
        """Bits of an AXI ID: a client number (one bit) above the client's tag."""
        return self.tag_bits + 1
