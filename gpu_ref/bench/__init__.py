"""Microbenchmarks that measure a GPU: ``python -m gpu_ref bench --out FILE.toml``.

Every module of a family (:data:`.families.FAMILIES`) makes PTX kernels, says which machine instructions they must become, and
turns what they measured into :class:`.results.Number`. Importing this needs no GPU.

==================  ====================================================================================================
``ptx``             the frame of a timed kernel: a loop between two reads of ``%clock64``
``machine_code``    the loop as ``nvdisasm`` shows it: is it what was meant to be measured?
``gpu``             assembling, loading and launching, through CuPy
``results``         numbers with unit, spread and provenance; statistics; the TOML and JSON files
``chains``          latency and interval of one instruction, the benchmark that most families use
``compare``         measured numbers beside those of the timing tables in use
==================  ====================================================================================================
"""
