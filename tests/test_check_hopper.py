"""What the checker finds in kernels for sm_90: bulk and tensor copies, mbarriers, clusters, wgmma. Compiled by nvcc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim

FOLDER = Path(__file__).parent / "data" / "hazards"
SOURCE = (FOLDER / "hopper.cu").read_text().splitlines()
TURNS = np.int32(4)


@pytest.fixture(scope="module")
def module() -> tcsim.RawModule:
    return tcsim.RawModule(path=FOLDER / "hopper.ptx")


def numbers(count: int) -> Any:
    return tcsim.asarray(np.arange(count, dtype=np.float32))


def zeros(count: int) -> Any:
    return tcsim.zeros(count, np.float32)


def tile() -> tuple[Any, bytes]:
    array = tcsim.asarray(np.arange(1024, dtype=np.float32).reshape(32, 32))
    return array, tcsim.tensor_map_tiled(array, (32, 32))


# CTAs, threads, arguments
LAUNCHES: dict[str, tuple[int, int, Callable[[], tuple[Any, ...]]]] = {
    "load_early": (1, 128, lambda: (numbers(128), zeros(128))),
    "given_back_early": (1, 96, lambda: (numbers(64 * 4), zeros(64), TURNS)),
    "store_unfenced": (1, 128, lambda: (numbers(128), zeros(128))),
    "store_overwritten": (1, 128, lambda: (numbers(128 * 4), zeros(128 * 4), TURNS)),
    "store_read_back": (1, 128, lambda: (numbers(128), zeros(128), zeros(128))),
    "far_read": (2, 64, lambda: (numbers(128), zeros(128))),
    "far_overwritten": (2, 32, lambda: (numbers(64), zeros(64))),
    "store_far": (2, 32, lambda: (numbers(64), zeros(64))),
    "arrives_early": (1, 64, lambda: (numbers(32), zeros(32))),
    "wrong_barrier": (1, 96, lambda: (numbers(64), zeros(32))),
    "product": (1, 128, lambda: (tcsim.zeros(10240, np.uint8), zeros(1024), np.int32(2))),
}


def check(module: tcsim.RawModule, name: str, **options: Any) -> tcsim.CheckReport:
    launch = name.rpartition("_")[0]
    kept, tensor = tile()
    if launch == "wrong_parity":
        ctas, threads, arguments = 1, 128, (tensor, zeros(1024))
    elif launch == "multicast_early":
        ctas, threads, arguments = 2, 128, (tensor, zeros(2048))
    else:
        ctas, threads, make = LAUNCHES[launch if launch in LAUNCHES else launch.partition("_")[0]]
        arguments = make()
    report = tcsim.check(module.get_function(name), (ctas,), (threads,), arguments, **options)
    assert kept.shape == (32, 32)  # alive until here: a map is only an address
    return report


# (kernel, kind, opcode or text of the source line of each side, what the message says)
BUGS = [
    ("load_early_wrong", "IN FLIGHT", ("bulk", "y[threadIdx.x] = tile[threadIdx.x ^ 1]"), "has waited for that phase"),
    ("wrong_parity_wrong", "RACE", ("y[i] = tile[i / 32][i % 32]", "cp.async.bulk.tensor"), "no barrier orders warp"),
    ("given_back_early_wrong", "RACE", ("sum += stage[i % 2]", "bulk"), "before it issues the copy"),
    ("store_unfenced_wrong", "PROXY FENCE", ("tile[threadIdx.x] = 2", "bulk"), "fence.proxy.async.shared::cta by the threads"),
    ("store_overwritten_wrong", "IN FLIGHT", ("bulk", "tile[threadIdx.x] = 2"), "cp.async.bulk.wait_group.read 0"),
    ("store_read_back_wrong", "IN FLIGHT", ("bulk", "z[threadIdx.x] = y["), "cp.async.bulk.wait_group 0 by"),
    ("far_read_wrong", "RACE", ("mine[i] = x", "ld.shared::cluster"), "barrier.cluster"),
    ("far_overwritten_wrong", "RACE", ("mine[i] = value + 1", "ld.shared::cluster"), "barrier.cluster"),
    ("multicast_early_wrong", "IN FLIGHT", ("multicast", "y[1024 * blockIdx.x + i]"), "CTA (1, 0, 0)"),
    ("store_far_wrong", "IN FLIGHT", ("st.async", "y[blockIdx.x * 32 + i] = box"), "mbarrier.try_wait.parity"),
    ("arrives_early_wrong", "RACE", ("box[threadIdx.x] = x", "box[63 - threadIdx.x]"), "no barrier orders warp 0 before"),
    ("wrong_barrier_wrong", "RACE", ("box[s][lane] = x", "y[lane] = box[1]"), "no barrier orders warp 1 before warp 2"),
    ("product_unfenced", "PROXY FENCE", ("reinterpret_cast<uint4*>", "wgmma"), "fence.proxy.async"),
    ("product_overwritten", "IN FLIGHT", ("wgmma", "reinterpret_cast<uint4*>"), "wgmma.wait_group that covers it"),
    ("product_read_early", "PRODUCT REGISTER", ("add.f32",), "no wgmma.wait_group covers it"),
    ("product_set_late", "PRODUCT REGISTER", ("wgmma.mma_async",), "since the last wgmma.fence"),
]


@pytest.mark.parametrize(("name", "kind", "sides", "said"), BUGS, ids=[bug[0] for bug in BUGS])
def test_a_planted_bug_is_found(module: tcsim.RawModule, name: str, kind: str, sides: tuple[str, ...], said: str) -> None:
    report = check(module, name)
    found = [hazard for hazard in report.hazards if hazard.kind == kind]
    assert found and said in "\n".join(hazard.text() for hazard in found), report.text()

    def shows(access: Any, expected: str) -> bool:
        return expected in access.opcode or expected in "\n".join(SOURCE[access.line - 2 : access.line + 1])

    assert any(all(map(shows, hazard.accesses, sides)) for hazard in found), report.text()


RIGHT = [f"{name}_right" for name in (*LAUNCHES, "wrong_parity", "multicast_early")]


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_without_the_bug(module: tcsim.RawModule, name: str) -> None:
    for seed in (None, 1, 2):
        report = check(module, name, seed=seed)
        assert report.ok, report.text()


RECORDED = ["block_pipeline", "gemm_specialised", "tensor_multicast", "tensor_transpose", "wgmma_attention", "wgmma_fp8"]


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_is_found_in_what_the_hardware_ran(name: str, traces: Path) -> None:
    from tcsim.cli.launches import LaunchOptions, prepare

    launch = prepare(str(traces / name), LaunchOptions())
    with tcsim.Checker(seed=1) as checker:
        launch.run()
    assert checker.report.ok, checker.report.text()
    assert all(comparison.equal for comparison in launch.bundle.compare(launch.outputs()))  # in another order, the same bits
