"""Machine code (SASS): assemble PTX with NVIDIA's ptxas, read the listing, and lower it for the executor."""
