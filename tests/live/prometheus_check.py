# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the exporter and answers queries about what it found."""
import json
import os
import socket
import subprocess
import urllib.parse
import urllib.request

from live import PATIENCE_S, Exporter, expect, need, scratch, until

prometheus = need("prometheus")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(port, text):
    """The value of each series, or nothing while Prometheus starts."""
    try:
        url = f"http://127.0.0.1:{port}/api/v1/query?query=" + urllib.parse.quote(text)
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return [float(series["value"][1]) for series in json.load(answer)["data"]["result"]]
    except OSError:
        return []


with scratch() as folder, Exporter("--dcgm-names", "--job", "job=4711,user=ann") as exporter:
    config, port = os.path.join(folder, "prometheus.yml"), free_port()
    with open(config, "w") as file:
        file.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: triplepoint\n"
                   f"  static_configs: [{{targets: ['{exporter.address}']}}]\n")
    server = subprocess.Popen([prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"])
    try:
        until(lambda: query(port, 'up{job="triplepoint"}') == [1], "Prometheus scrapes")
        until(lambda: query(port, "count(triplepoint_gpu_up)") == [8], "eight GPUs")
        power = until(lambda: query(port, 'triplepoint_gpu_power_instant_watts{gpu="5"}'), "power of GPU 5")
        expect(abs(power[0] - 699) < 1, f"power of GPU 5 is {power}")
        # At first the window holds less than its ten seconds.
        rate = 'rate(triplepoint_gpu_throttle_seconds_total{gpu="5",reason="software_power_cap"}[10s])'
        until(lambda: [share for share in query(port, rate) if abs(share - 0.31) < 0.05], "GPU 5 is throttled 31 % of the time")
        joined = until(lambda: query(port, 'count(triplepoint_gpu_power_instant_watts * on(host) group_left(job,user) triplepoint_job_info{user="ann"})'),
                       "joined with the job")
        expect(joined[0] >= 7, f"joined {joined}")
        until(lambda: query(port, "count(triplepoint_gpu_up == 0)") == [1], "GPU 7 is lost")
        until(lambda: query(port, "count(DCGM_FI_DEV_POWER_USAGE)") == [7], "the lost one is stale")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
