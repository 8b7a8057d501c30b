# SPDX-License-Identifier: Apache-2.0
"""The machine that a row means: its cluster cut to so many GPUs, its NICs, cooling and power limit."""
import re

from . import library
from .cells import Unreadable, number_after

LONGEST_NOTE = 200  # a cell, not a book


class Machine:
    def __init__(self, board, name):
        self.board, self.name = board, name
        self.cluster = library.cluster(name)
        self.gpu_name = self.cluster["gpu"]
        self.gpu = library.gpu(self.gpu_name)
        self.generation = library.generation(self.gpu_name)
        self.vendor = self.gpu["vendor"]
        self.per_node = self.num_nodes = 1
        changes = board.get("set", {})
        self.memory = library.bytes_of(changes.get("cluster.gpu.memory", self.gpu["memory"]))

    def has(self, precision):
        """Has the chip products in this precision?"""
        return f"peak_{ {'mxfp8': 'fp8', 'nvfp4': 'fp4'}.get(precision, precision)}" in self.gpu

    def peak_tflops(self):
        return float(self.gpu.get("peak_bf16", self.gpu.get("peak_fp16", "1 TFLOP/s")).split()[0])


def board_of(row):
    said = row.text("gpu")
    if not said:
        raise Unreadable("it does not say which GPU")
    rules = library.rules("machines")
    texts = [said, f"{said} {row.text('gpu_note')[:LONGEST_NOTE]}"]
    # Another maker's name in the column itself comes before a board that the note mentions for comparison.
    for text in texts:
        for board in rules["board"]:
            if re.search(board["pattern"], text, re.I):
                return board
        for absent in rules["absent"]:
            if re.search(absent["pattern"], text, re.I):
                raise Unreadable(f"GPU \"{said}\" is {absent['name']}, whose numbers are not in the library")
    raise Unreadable(f"no GPU is called \"{said}\" (its numbers are not in the library)")


def refined(board, row):
    """The same board with what the note says of it: 40 GB, PCIe, HBM2e."""
    both = f"{row.text('gpu')} {row.text('gpu_note')[:LONGEST_NOTE]}"
    for other in library.rules("machines")["board"]:
        if other is not board and re.search(other["pattern"], both, re.I):
            same = other["gpu"].split("-")[0] == board["gpu"].split("-")[0]
            return other if same else board
        if other is board:
            return board
    return board


def gpus_of(row):
    """GPUs as counted, or as ranks and nodes add up to."""
    counted = row.count("n_gpus")
    if counted:
        return counted
    ranks = [row.count(key) for key in ("dp", "tp", "pp")]
    if all(ranks):
        return ranks[0] * ranks[1] * ranks[2] * (row.count("cp") or 1)
    text = f"{row.text('gpu_note')}; {row.text('gpu')}; {row.text('extra')}"
    grid = re.search(r"\b(\d+) ?(?:nodes?)? ?[x×*] ?(\d+) ?(?:x )?(?:NVIDIA |AMD )?(?:GPU|[AHBV]\d00|GB\d00|MI\d)", text, re.I)
    if grid:
        return int(grid[1]) * int(grid[2])
    total = re.search(r"\b(\d+) ?[x×]? ?(?:GPUs|[AHBV]\d00s?\b|GB\d00|MI\d{3})", text, re.I)
    if total:
        return int(total[1])
    nodes = number_after(text, "nodes") or next((int(n) for n in re.findall(r"\b(\d+) nodes?\b", text, re.I)), None)
    if nodes:
        return nodes * 8
    raise Unreadable("it does not say how many GPUs")


def node_gbps(note, per_node):
    """Gb/s out of a node, as the note says it. Gb, not GB: the latter is what NVLink is sold by."""
    per_gpu = re.search(r"(\d{1,5}) ?Gb(?:ps|/s|it/s)?[A-Za-z0-9 -]{0,20}(?:per|/) ?GPU", note)
    if per_gpu:
        return int(per_gpu[1]) * per_node
    for pattern in (r"(\d{1,2}) ?[x×] ?(?:EDR|HDR|NDR|XDR) ?(\d{3})",
                    r"(\d{1,2}) ?[x×*] ?(?:[A-Za-z0-9-]{1,12} )?(\d{2,4}) ?Gb(?:ps|/s|it|E)",
                    r"(\d{1,2}) ?[x×*] ?(\d{2,4}) ?Gb? ?(?:RoCE|IB|InfiniBand|Ethernet|Omni|NIC)",
                    r"(\d{2,4}) ?Gb(?:ps|/s|it/s) ?[x×] ?(\d{1,2})",
                    r"(\d{2,5}) ?Gb(?:ps|/s|it/s)"):
        found = re.search(pattern, note)
        if found:
            product = 1
            for group in found.groups():
                product *= int(group)
            return product
    return None


def machine_of(row, assume):
    board = refined(board_of(row), row)
    if board.get("reason"):
        assume(board["reason"])
    note = row.text("gpu_note")[:LONGEST_NOTE]
    name = board["cluster"]
    for node in library.rules("machines")["node"]:
        if node["gpu"] == board["gpu"] and re.search(node["pattern"], note, re.I) and re.search(node.get("software", ""), row.text("framework"), re.I):
            name, board = node["cluster"], board | {"set": board.get("set", {}) | node.get("set", {})}
            if node.get("reason"):
                assume(node["reason"])
            break
    machine = Machine(board, name)
    gpus = gpus_of(row)
    if machine.generation == "cdna2" and counts_packages(row, machine):
        gpus *= 2
        machine.packages = True
        assume("its GPUs are packages of two dies")
    per_node = board.get("per_node", machine.cluster["gpus_per_node"])
    said = re.search(r"\b(\d{1,2}) ?(?:GPUs?|[AHBV]\d00s?|GB\d00|GCDs?) ?(?:per|/|a) ?node", note, re.I)
    if said and int(said[1]) >= 1:
        per_node = min(int(said[1]), per_node)
    devices = min(per_node, gpus)
    while gpus % devices:
        devices -= 1
    machine.per_node, machine.num_nodes = devices, gpus // devices
    return machine


def counts_packages(row, machine):
    """A die of an MI250 reaches half of a package; a row that prints more counts packages."""
    if re.search(r"\b(GCDs?|dies?)\b", f"{row.words} {row.text('gpu_note')} {row.text('gpu')}", re.I):
        return False
    tflops = row.amount("tflops_per_gpu")
    return tflops is not None and tflops > 0.9 * machine.peak_tflops()


def write(machine, row, job):
    """Keys of the cluster and its room."""
    note = row.text("gpu_note")[:LONGEST_NOTE]
    job["cluster"] = machine.name
    job["cluster.num_nodes"] = machine.num_nodes
    of_one_node = machine.cluster["scale_up"]["domain_size"] == machine.cluster["gpus_per_node"]
    if machine.per_node != machine.cluster["gpus_per_node"]:
        job["cluster.gpus_per_node"] = machine.per_node
        if of_one_node:
            job["cluster.scale_up.domain_size"] = machine.per_node
    gbps = node_gbps(note, machine.per_node)
    if gbps:
        nics = machine.cluster["scale_out"]["nics_per_node"]
        job["cluster.scale_out.nic_bandwidth"] = f"{gbps / nics:g} Gb/s"
    job.update(machine.board.get("set", {}))
    if re.search("liquid|water|DLC|immersion", note, re.I) and "liquid_chassis" in machine.cluster:
        job["environment.cooling"] = "liquid"
    words = f"{note}; {row.text('extra')}"
    limit = (re.search(r"(?<![\d.])(\d{3,4}) ?W(?:atts?)?\b", note) or re.search(r"(?:cap(?:ped)?|limit(?:ed)?)[^;,.]{0,12}?(\d{3,4}) ?W\b", words, re.I) or re.search(r"\b(\d{3,4}) ?W (?:power )?(?:cap|limit)", words, re.I))
    if limit and 200 <= int(limit[1]) <= 2000:
        job["environment.power_limit"] = f"{int(limit[1])} W"
