"""Derived parameters: widths, sizes and latencies that follow from the configuration."""

from amaranth.utils import ceil_log2, exact_log2

from .constants import BANK_BYTES, FIRST_FACTOR_REGISTER, LINE_BYTES, ROW_BYTES

__all__ = ["DerivedParameters"]


class DerivedParameters:
    """Derived parameters of ``Config``; the definition of every width of the hardware."""

    @property
    def core_bits(self):
        """Bits of a core number, at least one."""
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
        """Steps of the PEs for one factor word of integers of one or two bytes."""
        return 1 if element_bytes == 1 or self.wide_lanes else 2

    @property
    def two_passes(self):
        """16-bit integers are multiplied byte by byte, in two passes."""
        return self.mm16 and not self.wide_lanes

    @property
    def thread_bits(self):
        return exact_log2(self.threads)

    @property
    def word_bits(self):
        """Bits of a factor word, and of the broadcast word of B: ``dot`` bytes."""
        return 8 * self.dot

    @property
    def sum_bits(self):
        """Bits of the dot product of a PE: ``dot`` products of 9 x 9 bit signed, exact; with ``mm16`` modulo 2^32."""
        return 32 if self.mm16 else 18 + exact_log2(self.dot)

    @property
    def element_bits(self):
        """Bits of a broadcast element of B, signed."""
        return 17 if self.wide_lanes else self.engine_element_bits if self.rnn else 9

    @property
    def engine_element_bits(self):
        """Bits of an element that the recurrent engine multiplies, signed: of a vector, or of a difference to the reference vector."""
        return 16 + self.rnn_differences

    @property
    def positions(self):
        """PEs of the largest group that merges of ``mm`` form."""
        return min(16, self.threads)

    @property
    def word_index_bits(self):
        """Bits of the number of a word of ``dot`` bytes in a column of B: 16 slices of four words, or of one word for each thread."""
        return 4 + max(2, self.thread_bits)

    @property
    def fetch_slots(self):
        """Words of B that are fetched together, at most the positions of a group."""
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
        """32-bit register numbers of the factor register file of a PE."""
        return self.factor_words * self.dot // 4

    @property
    def registers(self):
        """Existing register numbers: product registers, then factor registers."""
        return FIRST_FACTOR_REGISTER + self.factor_registers

    @property
    def factor_address_bits(self):
        return exact_log2(self.factor_words)

    @property
    def thread_groups(self):
        """Groups of ``thread_slots`` threads that the thread unit processes one after the other."""
        return self.threads // min(self.thread_slots, self.threads)

    @property
    def slot_multipliers(self):
        """Multipliers that the slots share: at most one for each slot."""
        return min(self.thread_multipliers, self.thread_slots, self.threads)

    @property
    def thread_overlap(self):
        """Whether the thread unit overlaps operations: register reads of the next one and writes of the previous one with execution.

        The overlap is worth its area only for large groups, whose operations take few cycles.
        """
        return min(self.thread_slots, self.threads) >= 4

    @property
    def lane_registers(self):
        """Extra register stages between all units and the PEs."""
        return int(self.far_registers)

    @property
    def register_read_latency(self):
        """Cycles from the grant of a register read to its data; ``far_registers`` adds a stage in each direction."""
        return 2 + 2 * self.lane_registers

    @property
    def late_address_checks(self):
        """Whether a step of a load or store proceeds during its address check, and is dropped where an address is wrong."""
        return self.far_registers and not self.thread_overlap

    @property
    def banks_known_ahead(self):
        """Whether the fetch of B predicts its bank request one cycle earlier.

        The thread unit then registers which of its requests must wait. Requires that every reader and writer of shared memory requests
        at most one bank a cycle.
        """
        single_reads = (self.fetch_slots == 1 and min(self.thread_slots, self.threads) == 1 and self.axi_data_bits <= 8 * BANK_BYTES
                        and not self.rnn)
        return self.far_registers and single_reads and self.shared_writes == 1

    @property
    def asks_in_pauses(self):
        """Whether the fetch of B requests its banks also in a cycle of pause.

        The fetch discards the granted word and repeats the request. A pause of one cycle therefore does not reach the request logic.
        """
        return self.far_registers and not self.issue_ahead

    @property
    def words_voided(self):
        """Whether an error of a word of B is a separate flag that voids the word.

        The error is too late for the predicted bank request.
        """
        return self.banks_known_ahead and not self.transpose

    @property
    def single_bank_beats(self):
        """Whether a beat of the bus occupies one bank, and its grant is used late.

        A refused beat waits or is replayed; no further register depends on the grant.
        """
        return self.far_registers and self.axi_data_bits <= 8 * BANK_BYTES

    @property
    def registered_alu(self):
        """Whether the results of the ALUs of the thread unit are registered."""
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
        """Lanes of the activation pipeline: sums that it accepts in a cycle, those of one thread group."""
        return min(self.thread_slots, self.threads)

    @property
    def engine_sum_latency(self):
        """Cycles from a step of the recurrent engine to the first register read that sees its sums."""
        return 4 + exact_log2(self.dot)

    @property
    def vector_lanes(self):
        """Elements of a word of vector memory, at least the 8 elements of a word of shared memory."""
        return max(self.dot, self.tail_lanes, BANK_BYTES // 2)

    # -- AXI --------------------------------------------------------------------------------

    @property
    def line_beats(self):
        """Beats of a line of the L2 cache."""
        return LINE_BYTES // self.axi_bytes

    @property
    def axi_bytes(self):
        return self.axi_data_bits // 8

    @property
    def tag_bits(self):
        """Bits of the request tag of a client.

        With ``tensors`` two tags behind those of the reads serve the halves of a descriptor. With ``copy_within`` one more bit
        separates copies within a memory.
        """
        return max(ceil_log2(self.axi_reads + 2 * self.tensors), ceil_log2(self.axi_writes), 1) + self.copy_within

    @property
    def prefetches(self):
        """Whether prefetches have an effect."""
        return self.tensors and self.l2_kib > 0

    @property
    def transfer_blocks(self):
        """Blocks of 16 bytes of the largest load, store or prefetch."""
        return max(self.shared_bytes // BANK_BYTES, self.prefetched_blocks)

    @property
    def prefetched_blocks(self):
        """Blocks of 16 bytes that ``prefetch_block`` requests at most: the size of the L2 cache; 0 where prefetches have no effect."""
        return (self.l2_kib << 10) // BANK_BYTES if self.prefetches else 0

    @property
    def axi_id_bits(self):
        """Bits of an AXI ID: a client number (one bit) above the tag of the client."""
        return self.tag_bits + 1
