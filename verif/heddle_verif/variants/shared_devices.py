"""Configurations of devices that several test modules run: equal ones share a build."""

from heddle import load_config

__all__ = ["FOUR_CORES", "OWN_PORTS", "TWO_CORES"]

# All engines and the cache, whose lines two cores share. Products of 16 bits take long to build.
TWO_CORES = load_config("tiny").replace(name="tiny_cores2", cores=2, multicast=True, l2_kib=8, gather_offsets=False, mm16=False)

# At night. Without a cache: each core has its own port of global memory, and nothing answers sooner than this.
OWN_PORTS = load_config("tiny").without_level2(name="tiny_multicast2", rnn=False, sparse=False, cores=2, multicast=True)

# At night: four recurrent engines; without what else takes long to build.
FOUR_CORES = load_config("tiny").without_level2(name="tiny_cores", cores=4, tensors=False, copy_within=False, mm16=False, transpose=False,
                                                sparse=False, compiled_offsets=0, gather_offsets=False, thread_slots=4, factor_words=512,
                                                shared_memory_kib=8)
