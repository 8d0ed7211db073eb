"""What the lanes of a warp hold, and what they touch: fragment layouts and shared-memory banks.

=================  ==========================================================================================
module             what it does
=================  ==========================================================================================
names              instructions that spread matrices over lanes, by name
layouts            element to lane, register and bits, and back: ``tcsim.layout``
layout_text        the same as a grid, a table, CSV, Markdown, JSON
layout_picture     and as SVG and HTML
expression         addresses as an expression over the lane
bank_access        one access to shared memory: phases, wavefronts, conflicts: ``tcsim.banks``
remedies           the swizzles and paddings that remove conflicts, found by search
bank_text          an access as text and JSON
bank_picture       and as SVG and HTML
kernel_accesses    the shared-memory accesses of a launch
words              numbers in words
drawing            rectangles and words as SVG, and a page around them
=================  ==========================================================================================
"""

from tcsim.lanes.bank_access import BankAccess, banks
from tcsim.lanes.expression import ExpressionError
from tcsim.lanes.layouts import Feeds, Layout, LayoutError, OperandLayout, Place, layout

__all__ = [
    "BankAccess", "ExpressionError", "Feeds", "Layout", "LayoutError", "OperandLayout", "Place", "banks", "layout",
]  # fmt: skip
