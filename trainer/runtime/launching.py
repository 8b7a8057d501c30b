# SPDX-License-Identifier: Apache-2.0
"""What the tests with a launcher share: a tiny job, and mpirun with the settings that work."""
import os
import shutil
import sys

def job_text(**plan):
    """A job of four ranks."""
    values = {"precision": "fp32", "optimizer": "fp32_adamw", "global_batch_size": 8, "tensor_parallel_size": 2}
    values.update(plan)
    lines = ['name = "tiny"', 'model = "tiny-gpt"', 'cluster = { base = "laptop", gpus_per_node = 4, scale_up = { domain_size = 4 } }', 'stack = "triplepoint-train"', "[plan]"]
    for key, value in values.items():
        lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {str(value).lower()}")
    return "\n".join(lines) + "\n"


def launcher(ranks):
    """mpirun as root too, on fewer cores than ranks; leaves the test (77: skipped) where there is none."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("mpirun is not installed: skipped")
        sys.exit(77)
    os.environ.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        OMPI_MCA_mpi_yield_when_idle="1",
    )
    return [mpirun, "-n", str(ranks)]
