"""What a listing says of itself, in the two ways that nvdisasm has."""

from __future__ import annotations

import pytest

from isa.sass.sections import split_sections, trim

CODE = "\t.section\t.text.k,\"ax\",@progbits\n\t.align\t128\n        /*0000*/                   EXIT ;  /* 0x1 */\n"


@pytest.mark.parametrize(
    ("head", "target"),
    [
        ("\t.target\tsm_90\n\n\t.elftype\t@\"ET_EXEC\"\n", "sm_90"),
        ("\t.target\tsm_90a\n", "sm_90a"),
        # of what CUDA 12's ptxas assembled
        ('\t.headerflags\t@"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"\n', "sm_80"),
        (
            '\t.headerflags\t@"EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"\n',
            "sm_90a",
        ),
    ],
)
def test_the_target_is_read_and_kept(head: str, target: str) -> None:
    assert split_sections(head + CODE)[0] == target
    kept = trim(head + CODE)
    assert kept.startswith(f"\t.target\t{target}\n") and split_sections(kept)[0] == target
