"""How threads wait for work. To be imported before NumPy, which is when the thread pools read their settings.

A training step alternates between matrix products (OpenBLAS threads) and our own kernels (OpenMP threads). By default
each pool keeps its cores busy for some milliseconds after its work is done, just while the other pool wants them, and a
step takes up to twice as long as it needs to. What the user has set in the environment stays.
"""

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 clock ticks, where the default is 2^26
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
