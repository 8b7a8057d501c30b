#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes packaging/monitoring/dashboard.json, the Grafana dashboard of `triplepoint exporter`; --check fails if the file is stale.

tests/live/prometheus_check.py runs every query of it in Prometheus.
"""
import json
import sys

from repository import ROOT, name, report

FILE = ROOT / "packaging/monitoring/dashboard.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
HOST = 'host=~"$host"'
IDLE = HOST + ',mode=~"idle|iowait"'
GPU = "{{host}} gpu {{gpu}}"
POWER = "(triplepoint_gpu_power_instant_watts{%s} or triplepoint_gpu_power_average_watts{%s})" % (HOST, HOST)


def rate(metric, labels=HOST):
    return f"rate(triplepoint_{metric}{{{labels}}}[$__rate_interval])"


# Bits of reasons, where a driver has no counters.
REASONS = {4: "software_power_cap", 8: "hardware_slowdown", 32: "software_thermal", 64: "hardware_thermal", 128: "hardware_power_brake"}
BITS = [f'label_replace(avg by (host, gpu) (avg_over_time((floor(triplepoint_gpu_clock_event_reasons{{{HOST}}} / {bit}) % 2)[$__rate_interval:])), '
        f'"reason", "{reason}", "", "")' for bit, reason in REASONS.items()]
THROTTLED = " or ".join([f"sum by (host, gpu, reason) ({rate('gpu_throttle_seconds_total')})"] + BITS)
TEMPERATURE = f"(triplepoint_gpu_temperature_celsius{{{HOST}}} or triplepoint_gpu_junction_temperature_celsius{{{HOST}}})"  # MI300

# Title, unit of Grafana, [(query, legend)]
FIGURES = [
    ("Power of all GPUs", "watt", [(f"sum({POWER})", "")]),
    ("Hottest GPU", "celsius", [(f"max{TEMPERATURE}", "")]),
    ("Slowest busy GPU", "hertz", [(f"min(triplepoint_gpu_sm_clock_hertz{{{HOST}}} and triplepoint_gpu_utilization_ratio{{{HOST}}} > 0.5)", "")]),
    ("GPUs lost", "none", [(f"count(triplepoint_gpu_up{{{HOST}}} == 0) or vector(0)", "")]),
]
CHARTS = [
    ("Power", "watt", [(POWER, GPU)]),
    ("Temperature", "celsius", [(TEMPERATURE, GPU)]),
    ("Temperature of the memory", "celsius", [(f"triplepoint_gpu_memory_temperature_celsius{{{HOST}}}", GPU)]),
    ("SM clock", "hertz", [(f"triplepoint_gpu_sm_clock_hertz{{{HOST}}}", GPU)]),
    ("Share of time throttled", "percentunit", [(f"({THROTTLED}) > 0", GPU + " {{reason}}")]),
    ("Utilization", "percentunit", [(f"triplepoint_gpu_utilization_ratio{{{HOST}}}", GPU)]),
    ("Memory in use", "bytes", [(f"triplepoint_gpu_memory_used_bytes{{{HOST}}}", GPU)]),
    ("NVLink or xGMI, both directions", "Bps", [(f"{rate('gpu_scale_up_transmit_bytes_total')} + {rate('gpu_scale_up_receive_bytes_total')}", GPU)]),
    ("PCIe, both directions", "Bps", [(f"{rate('gpu_pcie_transmit_bytes_total')} + {rate('gpu_pcie_receive_bytes_total')}", GPU)]),
    ("CPU in use", "percentunit", [(f"1 - sum by (host) ({rate('node_cpu_seconds_total', IDLE)}) / sum by (host) ({rate('node_cpu_seconds_total')})", "{{host}}")]),
    ("Power of the GPUs by job", "watt", [(f"sum by (job_id, user) (max by (host, gpu) {POWER} * on(host, gpu) group_left(job_id, user) triplepoint_job_info)", "{{job_id}} {{user}}")]),
    ("CPU cores taken by measuring", "percentunit", [(rate("sampler_cpu_seconds_total"), "{{host}}")]),
]


def targets(queries):
    return [{"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": SOURCE} for at, (query, legend) in enumerate(queries)]


def panel(number, kind, place, entry):
    title, unit, queries = entry
    return {"id": number, "type": kind, "title": title, "datasource": SOURCE, "gridPos": place,
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []}, "targets": targets(queries)}


def panels():
    figures = [panel(at + 1, "stat", {"x": 6 * at, "y": 0, "w": 6, "h": 4}, entry) for at, entry in enumerate(FIGURES)]
    charts = [panel(at + 1 + len(FIGURES), "timeseries", {"x": 12 * (at % 2), "y": 4 + 8 * (at // 2), "w": 12, "h": 8}, entry)
              for at, entry in enumerate(CHARTS)]
    return figures + charts


def dashboard():
    variables = [{"name": "source", "label": "data source", "type": "datasource", "query": "prometheus"},
                 {"name": "host", "type": "query", "datasource": SOURCE, "query": "label_values(triplepoint_gpu_up, host)", "refresh": 2,
                  "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}]
    return {"title": "Triplepoint: GPUs", "uid": "triplepoint-gpus", "tags": ["triplepoint"], "schemaVersion": 39, "editable": True, "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"}, "templating": {"list": variables}, "panels": panels()}


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv:
        return report([] if FILE.exists() and FILE.read_text() == text else [f"{name(FILE)} is stale; run python3 tools/make_dashboard.py"])
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
