"""Registry of kernel families by kind of problem: the first of a list that fits a variant of a problem takes it.

The place in a list is the priority: a family stands ahead of those that it is better than where it fits. Families compete across variants:
each variant has the ``estimate`` of its family, and ``gain`` says how much fewer cycles replace an earlier variant (``choices``). A new
kernel is a file of its own, and a line here.
"""

from .compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from .convolution import ConvolutionKernel
from .copies import (
    BlockCopy,
    BlockKernel,
    BlockMove,
    BlockPrefetch,
    RepeatedCopies,
    RepeatedCopiesKernel,
    TensorCopy,
    TensorCopyKernel,
    TensorPrefetch,
    TensorPrefetchKernel,
)
from .depthwise import DepthwiseKernel, DepthwiseProblem
from .element_gather import ElementGatherKernel, ElementGatherProblem
from .elementwise import SumKernel, SumProblem
from .few_rows import FewRowsKernel
from .gather import GatherKernel, GatherProblem
from .gathered_convolution import GatheredConvolutionKernel, GatheredConvolutionProblem
from .kernel import Kernel
from .layer import LayerKernel, LayerProblem
from .layer_chain import LayerChainKernel, LayerChainProblem
from .panel_sum import PanelSumKernel
from .pooling import PoolKernel, PoolProblem
from .problem import ConvolutionProblem, MatmulProblem, Problem
from .recurrent import EngineKernel, EngineRun, FactorKernel, FactorLoad
from .resident import ResidentKernel
from .sampled_product import SampledProductKernel, SampledProductProblem
from .scheduled_product import ScheduledProductKernel
from .scheduled_samples import ScheduledSamplesKernel
from .sparse_product import SparseProductKernel, SparseProductProblem
from .split import SplitKernel
from .streaming import StreamingKernel
from .swapped import SwappedKernel
from .tiled import TiledKernel

__all__ = ["FAMILIES"]

FAMILIES: dict[type[Problem], list[type[Kernel]]] = {
    MatmulProblem: [
        ResidentKernel,
        StreamingKernel,
        SwappedKernel,
        SplitKernel,
        TiledKernel,
    ],
    LayerProblem: [FewRowsKernel, LayerKernel],
    LayerChainProblem: [LayerChainKernel],
    ConvolutionProblem: [ConvolutionKernel],
    CompiledConvolutionProblem: [CompiledConvolutionKernel],
    GatheredConvolutionProblem: [GatheredConvolutionKernel],
    DepthwiseProblem: [DepthwiseKernel],
    PoolProblem: [PoolKernel],
    SumProblem: [PanelSumKernel, SumKernel],
    EngineRun: [EngineKernel],
    FactorLoad: [FactorKernel],
    SparseProductProblem: [ScheduledProductKernel, SparseProductKernel],
    SampledProductProblem: [ScheduledSamplesKernel, SampledProductKernel],
    GatherProblem: [GatherKernel],
    ElementGatherProblem: [ElementGatherKernel],
    BlockCopy: [BlockKernel],
    BlockMove: [BlockKernel],
    BlockPrefetch: [BlockKernel],
    TensorCopy: [TensorCopyKernel],
    TensorPrefetch: [TensorPrefetchKernel],
    RepeatedCopies: [RepeatedCopiesKernel],
}
