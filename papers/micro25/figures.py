# SPDX-License-Identifier: Apache-2.0
"""Figures of the paper from other jobs, with its own points over them where it publishes some.

    3   kernel seconds of each pipeline stage, machine beside machine
    4   temperature, power, clock and efficiency over layouts
    5   bytes received by each GPU, over NVLink and PCIe
    8   as 4, with optimizations switched on
    10  kernel seconds by class, base beside recompute
    13  as 4, over microbatch sizes
    15  as 3 for one machine, over microbatch sizes
    17  temperature and throttling of each GPU
"""
import collections
import csv
import itertools
import math

import matplotlib
import matplotlib.pyplot as plt
import numpy

from jobs import CLASSES, mean, published

NUMBERS = (3, 4, 5, 8, 10, 13, 15, 17)
VARIANTS = ("base", "overlap", "recompute", "recompute+overlap")
INK = dict(zip(CLASSES, ("#0072b2", "#009e73", "#e69f00", "#d55e00", "#f0e442", "#cc79a7", "#56b4e9", "#999999")))
MEAN_ROW = "Per-GPU Avg."
Number = collections.namedtuple("Number", "job quantity stage gpu value", defaults=(None, None, None, None))
matplotlib.use("agg")
plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "svg.hashsalt": "micro25", "figure.constrained_layout.use": True})


# ---- which jobs a figure shows

def only(jobs, wanted):
    """Of each model and task the jobs that are wanted; all of one that has none."""
    has_some = {job.model_and_task for job in jobs if wanted(job)}
    return [job for job in jobs if wanted(job) or job.model_and_task not in has_some]


def order(job):
    """As the paper has it: FSDP first, then by the depth of the pipeline."""
    return "FSDP" not in job.layout, job.pipeline, job.layout, VARIANTS.index(job.variant), job.microbatch


def select(number, jobs, machine="", model=""):
    """What the paper's figure is about; of several machines the one with most jobs, but for figure 3.

    machine, model: a part of their names, to draw others.
    """
    jobs = [job for job in jobs if machine.lower() in job.machine.lower() and model.lower() in job.model]
    if number != 3 and jobs:
        most = collections.Counter(job.machine for job in jobs).most_common(1)[0][0]
        jobs = [job for job in jobs if job.machine == most]
    variants = {3: VARIANTS[3:], 4: VARIANTS[2:3], 5: VARIANTS[:1], 8: VARIANTS, 10: ("base", "recompute"), 13: VARIANTS[2:3],
                15: VARIANTS[2:3], 17: VARIANTS[:1]}[number]
    jobs = only(jobs, lambda job: job.variant in variants)
    if number in (13, 15):
        sizes = collections.defaultdict(set)
        for job in jobs:
            sizes[job.model_and_task, job.layout].add(job.microbatch)
        jobs = [job for job in jobs if len(sizes[job.model_and_task, job.layout]) > 1] or jobs
    else:
        jobs = only(jobs, lambda job: job.microbatch == 1)
    # Microbatch 1 of the artifact's microbatch sweep repeats a job of its optimization sweep: the sweep of the figure's script counts.
    sweep = "microbatch" if number in (13, 15) else "optimization"
    first = {}
    for job in sorted(jobs, key=lambda job: not job.sweep.startswith(sweep)):
        first.setdefault(job.key(), job)
    jobs = [job for job in jobs if first[job.key()] is job]
    if number == 15:
        jobs = [job for job in jobs if job.microbatch in (1, 4)] or jobs
    if number in (3, 15) and jobs:
        shown = "gpt3-175b" if any(job.model == "gpt3-175b" for job in jobs) else jobs[0].model
        jobs = [job for job in jobs if job.model == shown]
    return jobs


def by_model(jobs):
    return [(model, sorted((job for job in jobs if job.model_and_task == model), key=order))
            for model in dict.fromkeys(job.model_and_task for job in jobs)]


def labels(jobs, label):
    """Those that several jobs share name the variant too, and the microbatch."""
    texts = [label(job) for job in jobs]
    for more in (lambda job: job.variant, lambda job: f"mbs{job.microbatch}"):
        count = collections.Counter(texts)
        texts = [f"{text} {more(job)}" if count[text] > 1 and not text.endswith(more(job)) else text for text, job in zip(texts, jobs)]
    return texts


def with_microbatch(job):
    return f"{job.layout} mbs{job.microbatch}"


# ---- 4, 8 and 13: three panels over jobs

PANELS = (("temperature (°C)", "temperature_mean_c", "temperature_peak_c"), ("power (W)", "power_mean_w", "power_peak_w"),
          ("SM clock (GHz)", "sm_clock_mean_ghz", None))


def panels(number, jobs):
    label = {4: lambda job: job.layout, 8: lambda job: f"{job.layout} {job.variant}", 13: with_microbatch}[number]
    quantity = "efficiency_samples_per_s_mj" if number == 4 else "efficiency_over_best"
    groups = by_model(jobs)
    numbers, efficiency = [], {}
    for _, group in groups:
        best = max((job.numbers.get("efficiency_samples_per_s_mj") or 0 for job in group), default=0)
        for job in group:
            if not job.fits:
                numbers.append(Number(job, "out_of_memory", value=1))
                continue
            known = {key: value for key, value in job.numbers.items() if value is not None}
            if "efficiency_samples_per_s_mj" in known:
                efficiency[job] = known.pop("efficiency_samples_per_s_mj") / (1 if number == 4 or not best else best)
                known[quantity] = efficiency[job]
            numbers += [Number(job, key, value=value) for key, value in known.items()]
    shown = [job for _, group in groups for job in group]
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(2 + 0.17 * len(shown), 7))
    for (title, average, peak), axis in zip(PANELS, axes):
        axis.set_ylabel(title)
        right = axis.twinx()
        right.set_ylabel("efficiency" if number == 4 else "efficiency over the best")
        begin = 0
        for _, group in groups:
            x = range(begin, begin + len(group))
            def curve(of):
                return [math.nan if of(job) is None else of(job) for job in group]
            right.plot(x, curve(efficiency.get), "x--", color="#999999", lw=0.8, ms=3, label="efficiency, samples/(s MJ)")
            right.set_ylim(bottom=0)
            axis.plot(x, curve(lambda job: job.numbers.get(average)), "o-", color="#0072b2", lw=1, ms=3, label="mean over GPUs")
            if peak:
                axis.plot(x, curve(lambda job: job.numbers.get(peak)), "s-", color="#d55e00", lw=1, ms=3, label="peak")
            points(axis, x, group, average, "o")
            points(axis, x, group, peak, "s")
            for at, job in zip(x, group):
                if not job.fits:
                    axis.axvspan(at - 0.5, at + 0.5, color="#e8e8e8", label="out of memory")
            begin += len(group)
            axis.axvline(begin - 0.5, color="#999999", lw=0.5, ls=":")
        axis.set_zorder(right.get_zorder() + 1)
        axis.patch.set_visible(False)
    axes[-1].set_xticks(range(len(shown)), [text for _, group in groups for text in labels(group, label)], rotation=90)
    begin = 0
    for model, group in groups:
        axes[0].text(begin + len(group) / 2 - 0.5, 1.01, model, transform=axes[0].get_xaxis_transform(), ha="center", weight="bold")
        begin += len(group)
    what = {4: "Temperature, power, clock and efficiency", 8: "What optimizations change", 13: "What larger microbatches change"}[number]
    return finish(figure, what, jobs, axes[0], axes[0].figure.axes[3]), numbers


def points(axis, x, jobs, quantity, marker):
    """What the paper publishes of these jobs."""
    found = [(at, published()[job.key()][quantity]) for at, job in zip(x, jobs) if quantity in published().get(job.key(), ())]
    if found:
        axis.plot(*zip(*found), marker, mfc="none", mec="black", ms=5, mew=0.9, ls="", label="published")


def finish(figure, title, jobs, *legends):
    machines = dict.fromkeys(job.machine for job in jobs)
    figure.suptitle(title + (f" on {', '.join(machines)}" if len(machines) == 1 else ""))
    named = {}
    for axis in legends:
        for handle, name in zip(*axis.get_legend_handles_labels()):
            named.setdefault(name, handle)
    if named:
        figure.legend(named.values(), named.keys(), loc="lower center", bbox_to_anchor=(0.5, 1), ncol=6, frameon=False)
    return figure


# ---- 3, 10 and 15: stacks of kernel seconds

Stack = collections.namedtuple("Stack", "label job stage kernels published", defaults=({},))


def stacks_of_stages(job):
    if not job.fits:
        return [Stack("OOM", job, None, None)]
    shown = published().get(job.key(), {})
    return [Stack(str(stage), job, stage, kernels, {name: shown[f"stage_{stage}_{name}_s"] for name in CLASSES if f"stage_{stage}_{name}_s" in shown})
            for stage, kernels in job.stages.items()]


def stack_of_job(job):
    shown = published().get(job.key(), {})
    return Stack(job.variant, job, None, job.mean_kernels() if job.fits else None,
                 {name: shown[f"kernel_{name}_s"] for name in (*CLASSES, "total") if f"kernel_{name}_s" in shown})


def stacks(number, jobs):
    jobs = sorted(jobs, key=order)
    if number == 10:
        jobs = [job for _, group in by_model(jobs) for job in group]
        groups = [(f"{model}\n{layout}", [*map(stack_of_job, group)])
                  for (model, layout), group in itertools.groupby(jobs, lambda job: (job.model_and_task, job.layout))]
        title = "Kernel seconds by class"
    else:
        jobs = sorted(jobs, key=lambda job: (job.machine, job.microbatch))
        groups = [(f"{job.machine}\n{job.layout if number == 3 else with_microbatch(job)}", stacks_of_stages(job)) for job in jobs]
        title = f"{jobs[0].model}: kernel seconds of each pipeline stage"
    if not any(stack.kernels for _, group in groups for stack in group):
        raise ValueError("no job has kernel times (this figure is made of them); record with profiler traces")
    # Groups that are many times higher get their own scale.
    heights = [max((sum(stack.kernels.values()) for stack in group if stack.kernels), default=0) for _, group in groups]
    usual = sorted(heights)[(len(heights) - 1) // 2]
    parts = [[group for group, height in zip(groups, heights) if (height > 6 * usual > 0) == is_high] for is_high in (False, True)]
    parts = [part for part in parts if part]
    widths = [sum(room_of(stacks) + 1 for _, stacks in part) for part in parts]
    figure, axes = plt.subplots(1, len(parts), squeeze=False, width_ratios=widths, figsize=(3 + 0.15 * sum(widths), 4.5))
    for axis, part in zip(axes[0], parts):
        draw_stacks(axis, part, show_mean=number == 3)
    axes[0][0].set_ylabel("kernel seconds of a rank in one step")
    numbers = [Number(stack.job, f"kernel_{name}_s", stack.stage, value=stack.kernels[name]) if stack.kernels else
               Number(stack.job, "out_of_memory", stack.stage, value=1)
               for _, group in groups for stack in group for name in (CLASSES if stack.kernels else ("",))
               if not stack.kernels or stack.kernels[name] > 0]
    return finish(figure, title, jobs, *axes[0]), numbers


def room_of(stacks):
    """Bars and the title above them take so much."""
    return max(len(stacks), 5)


def draw_stacks(axis, groups, show_mean):
    end, ticks, texts = 0, [], []
    for title, stacks in groups:
        begin = x = end + (room_of(stacks) - len(stacks)) / 2
        for stack in stacks:
            if stack.kernels is None:
                axis.axvspan(x - 0.45, x + 0.45, color="#e8e8e8", label="out of memory")
            bottom = 0
            for name in CLASSES:
                value = (stack.kernels or {}).get(name, 0)
                if value > 0:
                    axis.bar(x, value, 0.9, bottom, color=INK[name], label=name.replace("_", "-").replace("send-recv", "send/recv"))
                # A class that the paper shows is a line over its own place in the stack, as long as the published value.
                if name in stack.published:
                    axis.plot([x, x], [bottom, bottom + stack.published[name]], "_-", color="black", lw=0.8, ms=5, label="published")
                bottom += value
            if "total" in stack.published:
                axis.plot([x], [stack.published["total"]], "o", mfc="white", mec="black", ms=4, label="published total")
            ticks.append(x)
            texts.append(stack.label)
            x += 1
        shown = published().get(stacks[0].job.key(), {})
        for name in ("compute", "total") if show_mean else ():
            if f"kernel_{name}_s" in shown:
                axis.plot([begin - 0.45, x - 0.55], [shown[f"kernel_{name}_s"]] * 2, "--" if name == "compute" else "-", color="black", lw=1,
                          label=f"published {name}, mean over the stages")
        axis.text((begin + x - 1) / 2, 1.01, title, transform=axis.get_xaxis_transform(), ha="center", fontsize=7)
        end += room_of(stacks) + 1
    axis.set_xticks(ticks, texts, rotation=90)
    axis.set_xlim(-1, end - 1)


# ---- 5 and 17: a colour per GPU and job

def rows_of(jobs, values):
    rows = []
    for model, group in by_model(jobs):
        for job, text in zip(group, labels(group, lambda job: job.layout)):
            if job.fits and (row := values(job)):
                rows.append((f"{model} {text}", job, numpy.array(row, dtype=float)))
    return rows


def below_fastest(job):
    """How far the clock of each GPU is below the fastest, over how far that of the slowest is.

    The paper's "normalized throttling" spans 0 to 1 in every row, and its sampler reads clocks, not clock events.
    """
    clocks = numpy.array(job.per_gpu.get("sm_clock_mhz") or (), dtype=float)
    if not numpy.isfinite(clocks).any():
        return []
    spread = numpy.nanmax(clocks) - numpy.nanmin(clocks)
    return [*(0 * clocks if spread < 1 else (numpy.nanmax(clocks) - clocks) / spread)]


def mean_row(rows):
    longest = max(len(row) for _, _, row in rows)
    return [mean(found) if (found := [row[i] for _, _, row in rows if i < len(row) and math.isfinite(row[i])]) else math.nan
            for i in range(longest)]


def maps(number, jobs):
    if number == 5:
        all = [("NVLink, inside the node (GiB received in a step)", "nvlink_received_gib", lambda job: job.per_gpu.get("nvlink_received_gib")),
               ("PCIe, to the NICs and the host (GiB received in a step)", "pcie_received_gib", lambda job: job.per_gpu.get("pcie_received_gib"))]
    else:
        all = [("(a) Temperature, mean over a step (°C)", "temperature_c", lambda job: job.per_gpu.get("temperature_c")),
               ("(b) Clock below the fastest GPU of the row, 1: the slowest", "clock_below_fastest", below_fastest)]
    drawn = [(title, quantity, rows) for title, quantity, values in all if (rows := rows_of(jobs, values))]
    if not drawn:
        raise ValueError("no job that the figure shows knows numbers of single GPUs; record the jobs, or choose others")
    slots = [job for _, job, _ in drawn[0][2] if number == 17 and "slot_0_c" in published().get(job.key(), {})]
    lines = [len(rows) + (number == 17) for _, _, rows in drawn] + [8] * bool(slots)
    figure, axes = plt.subplots(len(lines), 1, squeeze=False, height_ratios=lines, figsize=(9, 1.5 * len(lines) + 0.2 * sum(lines)))
    numbers = []
    for (title, quantity, rows), axis in zip(drawn, axes[:, 0]):
        numbers += [Number(job, quantity, gpu=i, value=value) for _, job, row in rows for i, value in enumerate(row) if math.isfinite(value)]
        table, texts = [row for _, _, row in rows], [text for text, _, _ in rows]
        if number == 17:
            average = mean_row(rows)
            numbers += [Number(None, quantity, gpu=i, value=value) for i, value in enumerate(average) if math.isfinite(value)]
            table, texts = [average, *table], [MEAN_ROW, *texts]
        draw_map(figure, axis, title, table, texts, is_logarithmic=number == 5, per_node=rows[0][1].gpus_per_node)
    if slots:
        draw_slots(axes[-1, 0], slots)
    title = "Traffic of every GPU" if number == 5 else "Heat and throttling of every GPU"
    return finish(figure, title, jobs, *([axes[-1, 0]] if slots else [])), numbers


def draw_map(figure, axis, title, table, texts, is_logarithmic, per_node):
    grid = numpy.full((len(table), max(map(len, table))), math.nan)
    for i, row in enumerate(table):
        grid[i, :len(row)] = row
    norm = None
    if is_logarithmic:
        grid[grid <= 0] = math.nan
        # What is smaller than the rest by so much (a norm's few bytes) would take all colours.
        high = numpy.nanmax(grid) if numpy.isfinite(grid).any() else 1
        norm = matplotlib.colors.LogNorm(max(numpy.nanmin(grid) if numpy.isfinite(grid).any() else 1, high / 65536), high, clip=True)
    image = axis.imshow(grid, aspect="auto", cmap="inferno", norm=norm, interpolation="nearest")
    axis.set_title(title, loc="left")
    axis.set_yticks(range(len(texts)), texts)
    nodes = range(0, grid.shape[1], per_node)
    axis.set_xticks(nodes, [f"node {at // per_node}" for at in nodes], ha="left")
    for at in nodes[1:]:
        axis.axvline(at - 0.5, color="white", lw=2)
    figure.colorbar(image, ax=axis, pad=0.01)


def draw_slots(axis, jobs):
    """Each slot, mean over the nodes, beside the published ones."""
    for job, colour in zip(jobs, ("#0072b2", "#d55e00", "#009e73", "#cc79a7")):
        size = job.gpus_per_node
        axis.plot([mean(job.per_gpu["temperature_c"][slot::size]) for slot in range(size)], "-", color=colour, lw=1, label=job.layout)
        axis.plot([published()[job.key()][f"slot_{slot}_c"] for slot in range(size)], "o", mfc="none", mec=colour, label=f"{job.layout}, published")
    axis.set_title("(c) Temperature of a slot, mean over the nodes (°C)", loc="left")
    axis.set_xlabel("slot")


# ---- all of them

def draw(number, jobs, machine="", model=""):
    """The figure, and the numbers that it draws."""
    chosen = select(number, jobs, machine, model)
    if not chosen:
        raise ValueError(f"no job to draw for figure {number}")
    kind = {4: panels, 8: panels, 13: panels, 5: maps, 17: maps}.get(number, stacks)
    return kind(number, chosen)


def write(number, jobs, folder, **choice):
    """figure-N.svg, and figure-N.csv with the numbers in it; returns these."""
    figure, numbers = draw(number, jobs, **choice)
    figure.savefig(folder / f"figure-{number}.svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    with open(folder / f"figure-{number}.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("figure", "model", "task", "machine", "layout", "variant", "microbatch", "quantity", "stage", "gpu", "value"))
        for job, quantity, stage, gpu, value in numbers:
            of = (job.model, job.task, job.machine, job.layout, job.variant, job.microbatch) if job else ("", "", "", MEAN_ROW, "", "")
            table.writerow((number, *of, quantity, stage, gpu, value))
    return numbers
