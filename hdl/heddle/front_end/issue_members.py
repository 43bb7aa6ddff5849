"""The ports of ``Issue``."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..constants import STORE_GROUPS
from ..interfaces.layouts import PC_BITS, ErrorStream, matrix_operation_layout, row_operation_layout, thread_operation_layout
from ..tmau.layouts import tensor_operation_layout
from .decode import decoded_layout
from .recurrent_control import recurrent_error_layout
from .uniform_state import segment_layout

__all__ = ["issue_members"]


def issue_members(cfg):
    """Ports of ``Issue``; those that ``FrontEnd`` passes on keep their names."""
    tensors = {"o_tensor": Out(stream.Signature(tensor_operation_layout())), "invalidate": Out(1), "invalidate_address": Out(32),
               "rows_busy": In(1), "commit": Out(1),
               "groups_pending": In(range(STORE_GROUPS + 1)), "groups_unread": In(range(STORE_GROUPS + 1))}
    limit = {"wait_timeout": In(32)} if cfg.wait_timeout else {}
    limit |= {"recurrent_start": Out(1), "recurrent_address": Out(32), "recurrent_busy": In(1),
              "recurrent_error": In(recurrent_error_layout)} if cfg.rnn else {}
    limit |= {"settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}
    return ({"matrix_hold": Out(1)} if cfg.issue_ahead else {}) | (tensors if cfg.tensors else {}) | limit | {
        "i": In(stream.Signature(decoded_layout(cfg))), "start": In(1), "stop": In(1),
        "redirect": Out(1), "target": Out(cfg.program_counter_bits), "flush": Out(1), "hold": Out(1),
        "active": Out(1), "ended": Out(1), "pc": Out(PC_BITS), "o_error": Out(ErrorStream()),
        "o_thread": Out(stream.Signature(thread_operation_layout)),
        "o_matrix": Out(stream.Signature(matrix_operation_layout(cfg))),
        "o_copy": Out(stream.Signature(row_operation_layout)),
        "predicates": In(cfg.threads).array(7), "lane_mask": In(cfg.threads),
        "thread_done": In(1), "matrix_done": In(1),
        "thread_busy": In(1), "matrix_busy": In(1), "copy_busy": In(1), "writes_pending": In(1),
        "tokens_empty": Out(1),
        "uniform_write": Out(1), "uniform_index": Out(6), "uniform_data": Out(32),
        "segment_write": Out(1), "segment_index": Out(4), "segment_data": Out(segment_layout),
        "expect": Out(1), "barrier": Out(4), "expect_bytes": Out(32),
        "opens": Out(1), "opens_barrier": Out(4), "barrier_passed": Out(1),
        "barrier_complete": In(1), "barrier_overrun": In(1), "barrier_excess": In(1),
        "event_instructions": Out(1), "event_token_stalls": Out(1), "event_queue_stalls": Out(1),
        "event_barrier_stalls": Out(1), "waiting_copy": Out(1), "waiting_thread": Out(1),
    }
