# SPDX-License-Identifier: Apache-2.0
"""triplepoint top of a run that is being recorded, and of the same when it is finished."""
import os
import subprocess

from live import PATIENCE_S, PROGRAM, environment, expect, run, scratch, skip, until

if "no command" in run("record", "--help").stderr:
    skip("there is no triplepoint record")

with scratch() as folder:
    file = os.path.join(folder, "job.run")
    recorder = subprocess.Popen([PROGRAM, "record", "-o", file, "--", "sleep", "12"], env=environment(),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists(file) and "power cap 3" in run("top", "--once", file).stdout, "the growing run shows its readings")
        early = run("top", "--once", file).stdout
        until(lambda: "does not answer" in run("top", "--once", file).stdout, "what happens to GPU 7 shows up while it grows")
    finally:
        recorder.wait(PATIENCE_S)
    done = run("top", "--once", file)
    expect(done.returncode == 0 and "8 GPUs" in done.stdout, "the finished run:\n" + done.stdout + done.stderr)
    expect("job.run at" in early, "the moment is said:\n" + early)
