# SPDX-License-Identifier: Apache-2.0
"""triplepoint exporter: a page Prometheus accepts, monotone counters, lost GPUs, jobs, tokens, bad clients."""
import json
import os
import shutil
import socket
import subprocess
import time

from live import PATIENCE_S, Exporter, environment, expect, run, samples, scratch, until


def gpu(page, name, index):
    return [value for key, value in samples(page).items() if key.startswith(f'{name}{{gpu="{index}"')]


def send(port, data, end=True):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(data)
        if end:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := client.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
        return answer


with scratch() as folder, Exporter("--dcgm-names", "--job-file", os.path.join(folder, "jobs"), "--job", "job=1,user=ann") as exporter:
    # Counters have a rate, and the page a GPU's readings, after the first ticks.
    page = until(lambda: (p := exporter.metrics()) and gpu(p, "triplepoint_gpu_energy_joules_total", 5) and p, "energy of GPU 5")
    expect(abs(gpu(page, "triplepoint_gpu_power_instant_watts", 5)[0] - 699) < 1, "power of GPU 5")
    expect(gpu(page, "triplepoint_gpu_up", 0) == [1], "GPU 0 is up")
    expect("DCGM_FI_DEV_GPU_TEMP{" in page, "names of DCGM")
    expect('triplepoint_job_info{host=' in page and 'job_id="1",user="ann",gpu="0"} 1' in page, "the job")
    expect("4.29497e+09" not in page and "18446744073709551615" not in page, "no sentinels")
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, timeout=PATIENCE_S)
        wrong = [line for line in checked.stderr.splitlines() if "triplepoint" in line or "error" in line]
        expect(not wrong, "promtool: " + "\n".join(wrong))
    else:
        print("promtool is not installed; its check is left out")

    # A prolog writes the job; the next page has it.
    with open(os.path.join(folder, "jobs"), "w") as jobs:
        jobs.write("job=4711,rank=3\n")
    expect('job_id="4711",rank="3"} 1' in exporter.metrics(), "a job that came")
    with open(os.path.join(folder, "jobs"), "w") as jobs:
        jobs.write("broken\n")
    expect('job_id="4711"' in exporter.metrics(), "a broken file does not take the page away")

    # Counters never fall.
    before = samples(exporter.metrics())
    for _ in range(5):
        time.sleep(0.3)
        after = samples(exporter.metrics())
        for key, value in before.items():
            if "_total" in key and key in after:
                expect(after[key] >= value, f"{key} fell from {value} to {after[key]}")
        before = after
    expect(gpu(exporter.metrics(), "triplepoint_gpu_throttle_seconds_total", 5)[0] > 0, "throttling is counted")

    # GPU 7 falls off the bus: no values any more, and it says so.
    lost = until(lambda: (p := exporter.metrics()) and gpu(p, "triplepoint_gpu_up", 7) == [0] and p, "GPU 7 is lost")
    expect(not gpu(lost, "triplepoint_gpu_power_instant_watts", 7), "a lost GPU has no power")
    expect(gpu(lost, "triplepoint_gpu_up", 6) == [1], "its neighbour goes on")
    status, text = exporter.get("/snapshot.json")
    expect(any("7" in trouble for trouble in json.loads(text)["troubles"]), "the loss is told in words: " + text[-500:])

    # Bad clients.
    # libmicrohttpd ends what has no request line; a TLS client could not read an answer.
    expect(send(exporter.port, b"\x16\x03\x01\x02\x00\r\n\r\n") == b"", "TLS to a plain port")
    expect(b" 400 " in send(exporter.port, b"GET /metrics\r\n\r\n"), "a request without a version")
    expect(b" 405 " in send(exporter.port, b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "POST")
    expect(b" 431 " in send(exporter.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 100000, end=False), "an endless head")
    expect(b" 421 " in send(exporter.port, b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "a name of somebody else's")
    silent = [socket.create_connection(("127.0.0.1", exporter.port)) for _ in range(500)]
    expect(exporter.get("/metrics")[0] == 200, "500 silent connections")
    for client in silent:
        client.close()
    expect(exporter.get("/nothing")[0] == 404, "no such page")

with scratch() as folder:
    token = os.path.join(folder, "token")
    with open(token, "w") as file:
        file.write("secret\n")
    os.chmod(token, 0o600)
    with Exporter("--token-file", token) as exporter:
        expect(exporter.get("/metrics")[0] == 401, "no token, no page")
        expect(exporter.get("/metrics", {"Authorization": "Bearer secret"})[0] == 200, "the token opens")
    os.chmod(token, 0o644)
    refused = run("exporter", "--token-file", token)
    expect(refused.returncode == 1 and "chmod 600" in refused.stderr, "a token everybody can read: " + refused.stderr)

refused = run("exporter", "--listen", "0.0.0.0:0")
expect(refused.returncode == 1 and "token" in refused.stderr, "everybody is not let in unasked: " + refused.stderr)
refused = run("exporter", "--listen", "nonsense")
expect(refused.returncode == 1 and "127.0.0.1:9400" in refused.stderr, "no address: " + refused.stderr)
refused = run("exporter", "--job", "a-b=1")
expect(refused.returncode == 1 and "a-b" in refused.stderr, "no label: " + refused.stderr)

env = environment(SLURM_JOB_ID="77", SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NTASKS="1", SLURM_STEP_ID="0", SLURM_JOB_USER="ann")
with Exporter(env=env) as exporter:
    expect('user="ann"' in exporter.metrics(), "Slurm's job")
    exporter.process.terminate()
    expect(exporter.process.wait(PATIENCE_S) == 0, "SIGTERM ends it as it should")
