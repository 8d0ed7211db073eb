"""Tensor-core instructions: fragment layouts, arithmetic rules, and the compiled kernels that apply them.

=================  ==========================================================================================
module             what it knows
=================  ==========================================================================================
formats            number formats of operands
forms              which ``mma.sync``, ``mma.sp`` and ``wmma`` instructions there are
layouts            which element each register of each lane holds (``wmma_layouts``, ``matrix_moves`` too)
metadata           which elements of a sparse A are stored, and where that is written
rules              what each architecture computes: the table
reference          the same, in plain Python on exact integers, to check the kernels by
simd               eight-lane vectors for compiled code
operands, fused    reading operands, and one fused step: what the floating-point kernels are made of
mma_*              the kernels, one per kind of arithmetic
plans              from a form and an architecture to kernel and constants
bulk               many dot products at once
=================  ==========================================================================================
"""

from isa.tensor.bulk import block_dot
from isa.tensor.forms import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm, NoFormError, find_form
from isa.tensor.layouts import Fragment, mma_fragment
from isa.tensor.metadata import metadata_fragment, metadata_layout
from isa.tensor.plans import MetadataError, Plan, execute, make_plan
from isa.tensor.rules import RULES, NoRuleError, Rule, find_rule
from isa.tensor.wmma_layouts import wmma_fragment

__all__ = [
    "MMA_FORMS", "RULES", "SPARSE_FORMS", "WMMA_FORMS", "Fragment", "MetadataError", "MmaForm", "NoFormError",
    "NoRuleError", "Plan", "Rule", "block_dot", "execute", "find_form", "find_rule", "make_plan", "metadata_fragment",
    "metadata_layout", "mma_fragment", "wmma_fragment",
]  # fmt: skip
