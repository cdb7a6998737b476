"""Set before numpy is imported: test workers share the cores, so BLAS keeps to one thread each."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
