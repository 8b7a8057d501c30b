// SPDX-License-Identifier: Apache-2.0
// The right column: pins and what differs, the curve, the search for plans, and the job in other words.
import { asButton, onPress } from "./card";
import { button, element } from "./elements";
import type { Answer } from "./explorer_core";
import type { Engine } from "./explorer_engine";
import type { Form } from "./explorer_form";
import { addRoving, marksChanged } from "./roving";
import { commandOf, pythonOf, requestOf, type Flags, type JobState } from "./explorer_state";
import type { StepAnswer } from "./explorer_view";

export interface Pin {
  job: JobState;
  name: string;
}

const mostPins = 4;
const letters = "ABCD";
const sameJob = "the same job";

/** What flags differ: "tp 4, pp 8". */
export function differenceName(job: JobState, from: JobState): string {
  const names = new Set([...Object.keys(job.flags), ...Object.keys(from.flags)]);
  const words = [...names].filter((name) => String(job.flags[name] ?? "") !== String(from.flags[name] ?? ""))
    .map((name) => `${name.replace(/^--/, "")} ${job.flags[name] ?? "as usual"}`);
  return words.slice(0, 3).join(", ") || sameJob;
}

function panel(title: string, ...content: (Node | string)[]): HTMLElement {
  return element("section", { class: "panel" }, element("h2", {}, title), ...content);
}

export class Pins {
  list: Pin[] = [];
  readonly root: HTMLElement;
  private readonly chips = element("ul", { class: "pins" });
  private readonly differs = element("div", { class: "differs" });
  private against = 0;

  constructor(private readonly engine: Engine, private readonly job: () => JobState, private readonly go: (job: JobState) => void, private readonly changed: () => void) {
    const pin = button("Pin this job", () => this.keep(this.job()));
    this.root = panel("Pins", element("p", { class: "note" }, "Keeps this job to compare others with it."), pin, this.chips, this.differs);
  }

  /** Pins a job that is not pinned, and compares with it. */
  keep({ flags, ...rest }: JobState): void {
    const job = { ...rest, flags: { ...flags } };
    const known = this.list.findIndex((pin) => differenceName(pin.job, job) === sameJob);
    if (known >= 0) this.against = known;
    else this.add(job);
  }

  private add(job: JobState): void {
    const name = this.list.length === 0 ? "first" : differenceName(job, this.list[0]!.job);
    this.list = [...this.list, { job, name }].slice(-mostPins);
    this.against = this.list.length - 1;
    this.changed();
  }

  draw(): void {
    this.chips.replaceChildren(...this.list.map((pin, i) => {
      const show = button(`${letters[i]}: ${pin.name}`, () => {
        this.against = i;
        this.changed();
      }, { "aria-pressed": String(i === this.against) });
      const back = button("open", () => this.go(pin.job), { "aria-label": `Open pin ${letters[i]}` });
      const away = button("×", () => {
        this.list.splice(i, 1);
        this.against = Math.max(0, Math.min(this.against, this.list.length - 1));
        this.changed();
      }, { "aria-label": `Remove pin ${letters[i]}` });
      return element("li", {}, show, back, away);
    }));
  }

  /** What the job in hand changes against the pin in hand, and why. */
  async compare(): Promise<void> {
    const pin = this.list[this.against];
    const job = this.job();
    if (!pin || differenceName(job, pin.job) === sameJob) return void this.differs.replaceChildren();
    const sides = [requestOf(pin.job, { name: letters[this.against] }), requestOf(job, { name: "this job" })];
    const answer = await this.engine.for("side").latest("compare", { sides });
    if (!answer) return;
    if (answer.error) return void this.differs.replaceChildren(element("p", { class: "note" }, answer.error));
    this.differs.innerHTML = String(answer.html); // the core has escaped every text
  }
}

export class Curve {
  readonly root: HTMLElement;
  private readonly drawing = element("div", { class: "drawing" });
  private turn = 0;

  constructor(private readonly engine: Engine, private readonly form: Form, private readonly job: () => JobState) {
    this.root = panel("Speed over the control you touched last", this.drawing);
  }

  /** Of another job than the one in hand: a core has better things to do. */
  stop(): void {
    this.turn += 1;
  }

  /** One step time after the other; what is newer ends it. */
  async draw(): Promise<void> {
    const turn = ++this.turn;
    const over = this.form.curveValues();
    if (!over) return void this.drawing.replaceChildren();
    const job = this.job();
    const values: (number | null)[] = [];
    for (const value of over.values) {
      const flags: Flags = { ...job.flags, [this.form.inHand]: value };
      const step = (await this.engine.for("side").ask("step", requestOf({ ...job, flags }))) as StepAnswer | undefined;
      if (turn !== this.turn) return;
      values.push(step?.tokens_per_s ?? null);
    }
    const title = `Tokens/s over ${over.title.toLowerCase()}`;
    const answer = await this.engine.for("side").ask("curve", { title, x: over.title, unit: "tokens/s", positions: over.positions, values });
    if (turn !== this.turn || !answer) return;
    if (values.every((value) => value === null)) this.drawing.replaceChildren("No value of this control fits.");
    else this.drawing.innerHTML = String(answer.svg ?? "");
  }
}

interface PlanAnswer extends Answer {
  answer: { verdict?: string };
  html: string;
  plans: { name: string; settings: Flags }[];
}

/** The dimensions of a first search. */
const fewLayouts = "cp=1,recompute=none|full,uneven=off,overlap-dp=on,mbs=1|2";

export class Plans {
  readonly root: HTMLElement;
  private readonly said = element("p", { class: "note", role: "status" });
  private readonly bar = element("progress", { max: "1", value: "0", hidden: true });
  private readonly found = element("div", { class: "plans" });
  private readonly find: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private readonly goal = element("select", { "aria-label": "Objective" },
    ...[["throughput", "fastest"], ["energy", "least energy"], ["edp", "energy × time"], ["cost", "cheapest"]].map(([value, text]) => element("option", { value: value! }, text!)));

  private asked: JobState | undefined; // of the plans shown
  private plans: PlanAnswer["plans"] = [];

  constructor(private readonly engine: Engine, private readonly job: () => JobState, private readonly pins: Pins, private readonly go: (job: JobState) => void) {
    this.find = button("Find the best plan", () => void this.search());
    this.stop = button("Stop", () => this.engine.for("plans").stop(), { hidden: true });
    this.root = panel("What else", element("p", { class: "note" }, "Searches all layouts of this model on these nodes."),
      element("div", { class: "row" }, this.goal, this.find, this.stop), this.bar, this.said, this.found);
    addRoving(this.found, () => [...this.found.querySelectorAll<SVGElement>("svg [data-job]")]);
    onPress(".plans svg [data-job]", (mark) => this.use(Number(mark.dataset.job?.replace("plan ", "")) - 1));
  }

  /** First a few layouts, for an answer within seconds; then all. */
  private async search(): Promise<void> {
    const job = this.job();
    const busy = (on: boolean): void => {
      this.find.disabled = on;
      this.stop.hidden = this.bar.hidden = !on;
    };
    const ask = (flags: Flags): Promise<PlanAnswer | undefined> =>
      this.engine.for("plans").ask("plan", requestOf(job, { plan: { "--objective": this.goal.value, ...flags } }), ({ what, share }) => {
        this.bar.value = share;
        this.said.textContent = `${what} …`;
      }) as Promise<PlanAnswer | undefined>;
    busy(true);
    this.bar.value = 0;
    const [some, all] = [ask({ "--fix": fewLayouts, "--top": "1" }), ask({ "--pareto": "" })];
    const soon = await some;
    if (soon && !soon.error) this.show(job, soon, "So far: ");
    const answer = await all;
    busy(false);
    this.said.textContent = "";
    if (!answer) return;
    if (answer.error) this.found.replaceChildren(element("p", { class: "why" }, answer.error));
    else this.show(job, answer);
  }

  private show(job: JobState, { answer, html, plans }: PlanAnswer, before = ""): void {
    [this.asked, this.plans] = [job, plans];
    this.found.innerHTML = before ? "" : html; // the core has escaped every text
    const rows = plans.map((each, i) => element("li", {}, button(`Use plan ${i + 1}`, () => this.use(i)), ` ${each.name}`));
    this.found.prepend(element("p", { class: "verdict" }, before + (answer.verdict ?? "")), element("ol", { class: "use" }, ...rows));
    this.found.querySelectorAll<SVGElement>("svg [data-job]").forEach(asButton);
    document.dispatchEvent(new Event(marksChanged));
  }

  /** The plan's layout on top of what the job says of all else, beside the job that it is instead of. */
  private use(i: number): void {
    const [job, settings] = [this.asked, this.plans[i]?.settings];
    if (!job || !settings) return;
    this.pins.keep(job);
    const layout = ["--tp", "--pp", "--cp", "--ep", "--vpp", "--expert-tensor-parallel-size", "--sequence-parallel", "--layers-per-stage", "--rank-order",
      "--mbs", "--gbs", "--sharding", "--recompute", "--recompute-layers", "--recompute-modules", "--schedule", "--overlap", "--power-limit"];
    const flags = { ...job.flags };
    for (const name of layout) {
      if (settings[name] !== undefined) flags[name] = settings[name]!;
      else delete flags[name];
    }
    this.go({ ...job, flags });
  }
}

export class Copies {
  readonly root: HTMLElement;
  private readonly shown = element("pre", { tabindex: "0", hidden: true });
  private readonly said = element("p", { class: "note", role: "status" });

  constructor(private readonly engine: Engine, private readonly job: () => JobState) {
    const names = ["Command", "Python", "job.toml", "Megatron-LM", "NeMo", "Megatron-Bridge", "torchtitan"];
    const marks = names.map((name) => button(name, () => void this.show(name)));
    const page = button("Whole report", () => void this.report());
    this.root = panel("Copy as", element("div", { class: "row" }, ...marks), this.said, this.shown, element("div", { class: "row" }, page));
  }

  private async textOf(name: string): Promise<string> {
    if (name === "Command") return commandOf(this.job());
    if (name === "Python") return pythonOf(this.job());
    const answer = await this.engine.for("side").ask("copy", requestOf(this.job()));
    return answer?.error ?? String(answer?.[name] ?? "");
  }

  private async show(name: string): Promise<void> {
    const text = await this.textOf(name);
    this.shown.textContent = text;
    this.shown.hidden = false;
    try {
      await navigator.clipboard.writeText(text);
      this.said.textContent = `${name}: copied.`;
    } catch {
      this.said.textContent = `${name}: mark the text and copy it (this page may not reach the clipboard).`;
    }
  }

  /** The run's page as the program writes it, in a tab of its own. */
  private async report(): Promise<void> {
    const answer = await this.engine.for("runs").ask("page", requestOf(this.job(), { command: commandOf(this.job()) }));
    if (!answer || answer.error) return void (this.said.textContent = answer?.error ?? "");
    window.open(URL.createObjectURL(new Blob([String(answer.html)], { type: "text/html" })), "_blank");
  }
}
