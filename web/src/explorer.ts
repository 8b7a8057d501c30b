// SPDX-License-Identifier: Apache-2.0
// The explorer: a job on the left, how it goes in the middle, what else on the right. Nothing leaves the page.
import { Card, onPress } from "./card";
import { button, element, oncePerFrame } from "./elements";
import { Engine, loadParts } from "./explorer_engine";
import { Form, type Tables } from "./explorer_form";
import { gallery } from "./explorer_gallery";
import { addScrollRegions, markScrollRegions } from "./regions";
import { Copies, Curve, Pins, Plans } from "./explorer_side";
import { readAddress, requestOf, writeAddress, type Flags, type JobState } from "./explorer_state";
import { View, type RunAnswer, type StepAnswer } from "./explorer_view";

const largeJob = 256; // GPUs: above, all is drawn when the slider is let go
const restMs = 250; // without input, before what is slow begins
const largestFile = 4 << 20;

/** What `triplepoint explore` has put into the page: a job, files that its flags name, and what is known of it. */
interface Inside extends JobState {
  files?: Record<string, string>;
  measured?: Record<string, string>; // key figures by label
  learned?: string; // what --with's runs taught, as HTML
}

class Explorer {
  private readonly view = new View();
  private readonly form: Form;
  private readonly left: HTMLElement;
  private readonly right: HTMLElement;
  private readonly pins: Pins;
  private readonly curve: Curve;
  private job: JobState;
  private settings: Flags = {};
  private gpus = 0;
  private version = 0; // of the job in hand
  private rest = 0;
  private readonly remember = oncePerFrame(() => writeAddress(this.job, this.pins.list.map((pin) => pin.job)));

  constructor(private readonly engine: Engine, tables: Tables, private readonly inside: Inside | undefined) {
    const { job, pins } = readAddress();
    const first = inside ? { flags: inside.flags, beginning: inside.beginning! } : { flags: gallery[0]!.flags };
    this.job = Object.keys(job.flags).length > 0 || job.beginning ? job : first;
    const here = (): JobState => this.job;
    const go = (to: JobState): void => this.open(to);
    this.pins = new Pins(engine, here, go, () => this.redrawPins());
    this.pins.list = pins.slice(0, 4).map((pin, i) => ({ job: pin, name: `pin ${i + 1}` }));
    this.form = new Form(tables, (flag, value, dragging) => this.change(flag, value, dragging));
    this.curve = new Curve(engine, this.form, here);
    const plans = new Plans(engine, here, this.pins, go);
    const copies = new Copies(engine, here);
    this.left = element("aside", { class: "left", "aria-label": "The job" }, this.starts(), this.dropZone(), this.form.root);
    this.right = element("aside", { class: "right", "aria-label": "What else" }, this.pins.root, this.curve.root, plans.root, copies.root);
    if (inside?.learned) this.right.append(learnedPanel(inside.learned));
    document.querySelector("main")!.replaceChildren(this.left, this.view.root, this.right);
    window.addEventListener("hashchange", () => this.open(readAddress().job));
    document.addEventListener("click", (event) => this.follow(event));
    const card = new Card();
    onPress("svg [data-gpu]", async (mark) => {
      const answer = await engine.for("runs").ask("gpu", requestOf(this.job, { gpu: Number(mark.dataset.gpu) }));
      if (answer && !answer.error) card.openGpu(mark, String(answer.svg));
    });
    addScrollRegions();
    this.listenForFiles();
    this.pins.draw();
    this.open(this.job);
  }

  // ---- the job in hand

  open(job: JobState): void {
    this.job = { ...job, flags: { ...job.flags } };
    this.settings = {};
    void this.ask(false);
  }

  private change(flag: string, value: string | string[] | undefined, dragging: boolean): void {
    if (value === undefined) delete this.job.flags[flag];
    else this.job.flags[flag] = value;
    void this.ask(dragging);
  }

  /** Step time at once; the rest behind it, and of large jobs when the slider is let go. */
  private async ask(dragging: boolean): Promise<void> {
    const version = ++this.version;
    const request = requestOf(this.job);
    this.form.show(this.job.flags, this.settings);
    this.remember();
    window.clearTimeout(this.rest);
    this.curve.stop();
    this.right.classList.add("older");
    const isLarge = this.gpus > largeJob; // then a slow answer may stand in the way
    const step = (await this.engine.for(isLarge ? "steps" : "runs").latest("step", request)) as StepAnswer | undefined;
    if (!step || version !== this.version) return;
    if (step.error) this.view.showError(step.error);
    else {
      this.gpus = step.num_gpus;
      this.settings = step.settings;
      this.view.showStep(step, this.gpus > largeJob);
      this.form.show(this.job.flags, this.settings);
    }
    performance.mark("step-shown");
    if (!(dragging && this.gpus > largeJob)) await this.drawRun(request, version);
    if (version === this.version) this.rest = window.setTimeout(() => void this.drawRest(version), restMs);
  }

  private async drawRun(request: object, version: number): Promise<void> {
    const run = (await this.engine.for("runs").latest("simulate", request)) as RunAnswer | undefined;
    if (!run || version !== this.version) return;
    if (run.error) this.view.showError(run.error);
    else await this.view.showRun(run, this.measured(), () => version !== this.version);
    if (version !== this.version) return;
    document.title = `${run.title ?? "Triplepoint"} · Explore`;
    document.documentElement.dataset.ready = "yes"; // tests wait for this
    document.documentElement.dataset.shown = String(version);
    performance.mark("run-shown");
  }

  /** Of the recording that the job in hand is of: key figures. */
  private measured(): Record<string, string> {
    return (this.inside?.beginning === this.job.beginning && this.inside?.measured) || {};
  }

  /** What may wait until one stops to think. */
  private async drawRest(version: number): Promise<void> {
    markScrollRegions();
    await this.pins.compare();
    const legal = await this.engine.for("side").latest("legal", requestOf(this.job, { values: this.form.candidates() }));
    if (legal && !legal.error && version === this.version) this.form.showRefused(legal as unknown as Record<string, (string | null)[]>);
    if (version === this.version) await this.curve.draw();
    if (version === this.version) this.right.classList.remove("older");
  }

  /** The address is the job's: a link inside of the page moves to its target, and no more. */
  private follow(event: Event): void {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    document.getElementById(decodeURIComponent(link.hash.slice(1)))?.scrollIntoView();
  }

  private redrawPins(): void {
    this.pins.draw();
    this.remember();
    void this.pins.compare();
  }

  // ---- where to begin

  private starts(): HTMLElement {
    const cards = gallery.map(({ title, about, flags }) => {
      const card = button("", () => {
        box.open = false;
        this.open({ flags: { ...flags } });
      }, { class: "start" });
      card.append(element("b", {}, title), element("span", {}, about));
      return element("li", {}, card);
    });
    const box = element("details", { class: "starts" }, element("summary", {}, "Start from"), element("ul", {}, ...cards));
    return box;
  }

  private dropZone(): HTMLElement {
    const input = element("input", { type: "file", id: "file", accept: ".json,.toml,.yaml,.yml,.sh,.txt" });
    input.addEventListener("change", () => {
      const file = input.files?.[0];
      if (file) void this.read(file);
      input.value = "";
    });
    return element("div", { class: "drop" }, element("label", { for: "file" }, "Drop a config.json, a launch file (script, YAML, TOML) or a job.toml here"), input);
  }

  private listenForFiles(): void {
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (file) void this.read(file);
    });
  }

  /** Read by the program's own readers; it stays in this page. */
  private async read(file: File): Promise<void> {
    if (file.size > largestFile) return this.view.showError(`${file.name} is larger than 4 MiB; no job file is`);
    const path = `/dropped/${file.name.replace(/[^\w.-]/g, "_")}`;
    this.engine.addFile(path, new Uint8Array(await file.arrayBuffer()));
    const answer = await this.engine.for("side").ask("read", { file: path, flags: this.job.flags });
    if (!answer) return;
    if (answer.error) return this.view.showError(answer.error);
    this.open({ flags: {}, beginning: String(answer.beginning) });
  }
}

function learnedPanel(html: string): HTMLElement {
  const panel = element("details", { class: "panel" }, element("summary", {}, "What your runs taught"));
  panel.insertAdjacentHTML("beforeend", html); // the program has escaped every text
  return panel;
}

const inPage = <What>(id: string): What | undefined => JSON.parse(document.getElementById(id)?.textContent ?? "null") ?? undefined;

async function start(): Promise<void> {
  try {
    const parts = loadParts();
    const engine = new Engine(parts);
    const inside = inPage<Inside>("job");
    for (const [name, content] of Object.entries(inside?.files ?? {})) engine.addFile(name, new TextEncoder().encode(content));
    new Explorer(engine, inPage<Tables>("tables")!, inside);
    await parts;
  } catch (problem) {
    document.querySelector("main")!.replaceChildren(element("p", { class: "verdict bad" },
      `This page cannot start (${String(problem)}). It needs WebAssembly with exceptions and DecompressionStream: Chrome 95, Firefox 113, Safari 16.4 or newer.`));
  }
}

void start();
