"""Configurations of devices that several test modules run: equal ones share a build."""

from heddle import load_config

__all__ = ["SPARSE_CORES", "TWO_CORES"]

# Without a cache: each core has its own port of global memory, and nothing answers sooner than this.
TWO_CORES = load_config("tiny").without_level2(name="tiny_multicast2", rnn=False, sparse=False, cores=2, multicast=True)

# With sparse engines, whose results are added in the cache or collected by one core.
SPARSE_CORES = load_config("tiny").replace(name="tiny_tiles", cores=2, multicast=True, l2_kib=8, compiled_offsets=0, gather_offsets=False,
                                           mm16=False)
