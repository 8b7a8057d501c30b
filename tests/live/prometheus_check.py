# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the exporter and answers queries about what it found, among them those of the dashboard and of the alerts."""
import json
import os
import re
import socket
import subprocess
import urllib.parse
import urllib.request

from live import HERE, PATIENCE_S, Exporter, expect, need, scratch, until

prometheus = need("prometheus")
MONITORING = os.path.join(HERE, "../../packaging/monitoring")


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


def dashboard_queries():
    """{title: query} of the shipped dashboard, for all hosts."""
    with open(os.path.join(MONITORING, "dashboard.json")) as file:
        panels = json.load(file)["panels"]
    return {panel["title"]: target["expr"].replace("$host", ".*").replace("$__rate_interval", "10s")
            for panel in panels for target in panel["targets"]}


def shipped_rules():
    """Names of the rules in the file, to be found in Prometheus."""
    with open(os.path.join(MONITORING, "alerts.yml")) as file:
        return set(re.findall(r"^ +- (?:alert|record): (\S+)", file.read(), re.M))


def rule_health(port):
    """{rule: ok, err or unknown}"""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=PATIENCE_S) as answer:
        groups = json.load(answer)["data"]["groups"]
    return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


with scratch() as folder, Exporter("--dcgm-names", "--job", "job=4711,user=ann") as exporter:
    config, port = os.path.join(folder, "prometheus.yml"), free_port()
    with open(config, "w") as file:
        file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                   f"rule_files: [{os.path.abspath(MONITORING)}/alerts.yml]\nscrape_configs:\n- job_name: triplepoint\n"
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
        joined = until(lambda: query(port, 'count(triplepoint_gpu_power_instant_watts * on(host,gpu) group_left(job_id,user) triplepoint_job_info{user="ann"})'),
                       "joined with the job")
        expect(joined[0] >= 7, f"joined {joined}")
        until(lambda: query(port, "count(triplepoint_gpu_up == 0)") == [1], "GPU 7 is lost")
        for title, text in dashboard_queries().items():
            until(lambda: query(port, text), f"the dashboard's {title}: {text}")
        until(lambda: rule_health(port) == dict.fromkeys(shipped_rules(), "ok"), "all rules are evaluated")
        until(lambda: query(port, 'ALERTS{alertname="GpuLost",gpu="7"}'), "the alert on GPU 7")
        until(lambda: query(port, "count(DCGM_FI_DEV_POWER_USAGE)") == [7], "the lost one is stale")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
