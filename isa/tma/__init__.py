"""Tensor memory access: tensor maps, and the bulk copies that they describe (PTX ISA 5.5, 9.7.9.25.4 to 9.7.9.28)."""
