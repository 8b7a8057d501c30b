// SPDX-License-Identifier: Apache-2.0
// The left column: a dozen controls in front, every flag of the program behind them.
import { button, element } from "./elements";
import type { Flag, Flags } from "./explorer_state";

/** How a flag is set. `steps`: buttons, of which illegal ones say why; `slide`: a range with a unit; `pick`: a list. */
interface Control {
  flag: string;
  title: string;
  kind: "pick" | "steps" | "slide";
  values?: string[]; // of steps; absent: the flag's choices
  slide?: { low: number; high: number; step: number; unit: string };
}

const sizes = (highest: number): string[] => {
  const list: string[] = [];
  for (let size = 1; size <= highest; size *= 2) list.push(String(size));
  return list;
};

const controls: Control[] = [
  { flag: "--model", title: "Model", kind: "pick" },
  { flag: "--cluster", title: "Cluster", kind: "pick" },
  { flag: "--nodes", title: "Nodes", kind: "steps", values: sizes(256) },
  { flag: "--tp", title: "Tensor parallel", kind: "steps", values: sizes(16) },
  { flag: "--pp", title: "Pipeline stages", kind: "steps", values: ["1", "2", "3", "4", "5", "6", "8", "10", "12", "16"] },
  { flag: "--cp", title: "Context parallel", kind: "steps", values: sizes(16) },
  { flag: "--ep", title: "Expert parallel", kind: "steps", values: sizes(64) },
  { flag: "--mbs", title: "Microbatch", kind: "steps", values: ["1", "2", "4", "8", "16"] },
  { flag: "--gbs", title: "Batch", kind: "steps", values: ["32", "64", "128", "256", "512", "1024", "2048"] },
  { flag: "--seq", title: "Sequence", kind: "steps", values: ["2048", "4096", "8192", "16384", "32768", "131072"] },
  { flag: "--precision", title: "Precision", kind: "steps" },
  { flag: "--recompute", title: "Recompute", kind: "steps" },
  { flag: "--sharding", title: "Sharding", kind: "steps" },
  { flag: "--overlap", title: "Overlap", kind: "steps", values: ["none", "dp", "tp", "tp,dp", "tp,dp,pp"] },
  { flag: "--tokens", title: "Train for (tokens)", kind: "steps", values: ["100B", "300B", "1T", "2T", "15T"] },
  { flag: "--power-limit", title: "Power limit of a GPU", kind: "slide", slide: { low: 200, high: 700, step: 10, unit: "W" } },
  { flag: "--ambient", title: "Inlet", kind: "slide", slide: { low: 10, high: 50, step: 0.5, unit: "C" } },
  { flag: "--cooling", title: "Cooling", kind: "steps" },
  { flag: "--oversubscription", title: "Links between nodes, oversubscribed", kind: "slide", slide: { low: 1, high: 8, step: 0.5, unit: "" } },
];

/** What the core answers to "flags". */
export interface Tables {
  job: Flag[];
  simulation: Flag[];
  library: Record<string, string[]>;
}

/** What the form tells: a flag has a new value; `dragging` while a slider is held. Undefined takes the flag back. */
export type Changed = (flag: string, value: string | string[] | undefined, dragging: boolean) => void;

type Update = (flags: Flags, settings: Flags) => void;

const textOf = (value: string | string[] | undefined): string => (Array.isArray(value) ? value.join("\n") : value ?? "");

export class Form {
  readonly root = element("form", { class: "controls", "aria-label": "The job" });
  inHand = "--power-limit"; // the control touched last, whose curve is drawn
  private readonly updates: Update[] = [];
  private readonly refused = new Map<string, (problems: (string | null)[]) => void>();

  constructor(private readonly tables: Tables, private readonly changed: Changed) {
    this.root.addEventListener("submit", (event) => event.preventDefault());
    for (const control of controls) this.root.append(this.field(control));
    this.root.append(this.allFlags());
  }

  /** The values that the program shall judge. */
  candidates(): Record<string, string[]> {
    return Object.fromEntries(controls.filter((each) => each.kind === "steps").map((each) => [each.flag, this.valuesOf(each)]));
  }

  /** Of the control in hand: values for a curve. */
  curveValues(): { title: string; values: string[]; positions: string[] } | undefined {
    const control = controls.find((each) => each.flag === this.inHand);
    if (!control || control.kind === "pick") return undefined;
    if (!control.slide) return { title: control.title, values: this.valuesOf(control), positions: this.valuesOf(control) };
    const { low, high, step, unit } = control.slide;
    const positions = Array.from({ length: 7 }, (_, i) => String(Math.round((low + ((high - low) * i) / 6) / step) * step)); // texts that fit side by side
    return { title: unit ? `${control.title} (${unit})` : control.title, values: positions.map((each) => `${each} ${unit}`.trim()), positions };
  }

  /** Shows a job: what its flags say, and what holds without them. */
  show(flags: Flags, settings: Flags): void {
    for (const update of this.updates) update(flags, settings);
  }

  showRefused(problems: Record<string, (string | null)[]>): void {
    for (const [flag, list] of Object.entries(problems)) this.refused.get(flag)?.(list);
  }

  private flag(name: string): Flag {
    return [...this.tables.job, ...this.tables.simulation].find((each) => each.names.includes(name))!;
  }

  private valuesOf(control: Control): string[] {
    return control.values ?? this.flag(control.flag).choices;
  }

  private tell(flag: string, value: string | string[] | undefined, dragging = false): void {
    this.inHand = flag;
    this.changed(flag, value, dragging);
  }

  private field(control: Control): HTMLElement {
    if (control.kind === "pick") return this.pick(control);
    return control.kind === "steps" ? this.steps(control) : this.slider(control);
  }

  private pick({ flag, title }: Control): HTMLElement {
    const select = element("select", { id: `f${flag}` });
    const fill = (now: string): void => {
      const known = this.tables.library[this.flag(flag).words] ?? [];
      const names = known.includes(now) || now === "" ? known : [now, ...known];
      if (select.options.length !== names.length) select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
      select.value = now;
    };
    select.addEventListener("change", () => this.tell(flag, select.value));
    this.updates.push((flags, settings) => fill(textOf(flags[flag] ?? settings[flag])));
    return element("div", { class: "field" }, element("label", { for: `f${flag}` }, title), select);
  }

  /** Buttons of one choice: pressed again, it is as usual; a refused one stays to be asked why. */
  private steps(control: Control): HTMLElement {
    const { flag, title } = control;
    const values = this.valuesOf(control);
    const why = element("p", { class: "why", role: "status", hidden: true });
    const marks = values.map((value) => button(value, () => {
      const reason = marks[values.indexOf(value)]!.dataset.refused;
      why.hidden = !reason;
      why.textContent = reason ?? "";
      const again = marks[values.indexOf(value)]!.getAttribute("aria-pressed") === "true";
      if (!reason) this.tell(flag, again ? undefined : value);
    }, { "aria-pressed": "false" }));
    const other = element("span", { class: "other", hidden: true });
    this.updates.push((flags, settings) => {
      const now = textOf(flags[flag] ?? settings[flag] ?? (values[0] === "1" ? "1" : ""));
      marks.forEach((mark, i) => mark.setAttribute("aria-pressed", String(values[i] === now)));
      other.hidden = now === "" || values.includes(now);
      other.textContent = now;
      why.hidden = true;
    });
    this.refused.set(flag, (problems) => {
      marks.forEach((mark, i) => {
        const problem = problems[i];
        mark.toggleAttribute("data-no", Boolean(problem));
        mark.setAttribute("aria-disabled", String(Boolean(problem)));
        if (problem) mark.dataset.refused = problem;
        else delete mark.dataset.refused;
        mark.title = problem ?? "";
      });
    });
    return element("fieldset", { class: "field" }, element("legend", {}, title), element("div", { class: "steps" }, ...marks, other), why);
  }

  private slider({ flag, title, slide }: Control): HTMLElement {
    const { low, high, step, unit } = slide!;
    const range = element("input", { type: "range", id: `f${flag}`, min: String(low), max: String(high), step: String(step) });
    const shown = element("output", { for: `f${flag}` });
    const text = (): string => `${range.value}${unit ? ` ${unit}` : ""}`;
    const back = button("usual", () => this.tell(flag, undefined), { class: "usual", hidden: true });
    range.addEventListener("input", () => {
      shown.textContent = text();
      this.tell(flag, text(), true);
    });
    range.addEventListener("change", () => this.tell(flag, text()));
    this.updates.push((flags, settings) => {
      const now = parseFloat(textOf(flags[flag] ?? settings[flag] ?? String(low)));
      // What holds without the flag is a power's highest value.
      if (unit === "W" && flags[flag] === undefined && settings[flag] !== undefined) [slide!.low, slide!.high] = [Math.round(0.3 * now), now];
      [range.min, range.max] = [String(Math.min(slide!.low, now)), String(Math.max(slide!.high, now))];
      range.value = String(now);
      shown.textContent = text();
      back.hidden = flags[flag] === undefined;
    });
    return element("div", { class: "field" }, element("label", { for: `f${flag}` }, title), element("div", { class: "slide" }, range, shown, back));
  }

  /** Every flag, in the groups of the program's help. */
  private allFlags(): HTMLElement {
    const front = new Set(controls.map((each) => each.flag));
    const box = element("details", { class: "all-flags" }, element("summary", {}, "All flags"));
    let group = "";
    for (const flag of [...this.tables.job, ...this.tables.simulation]) {
      if (flag.names.some((name) => front.has(name)) || flag.words === "folders" || flag.names[0] === "--run-script") continue;
      if (flag.group !== group) box.append(element("h3", {}, (group = flag.group)));
      box.append(this.plainField(flag));
    }
    return box;
  }

  private plainField(flag: Flag): HTMLElement {
    const name = flag.names[0]!;
    const id = `f${name}`;
    const input = this.inputOf(flag, id);
    input.addEventListener("change", () => {
      if (input instanceof HTMLInputElement && input.type === "checkbox") return this.tell(name, input.checked ? "" : undefined);
      const lines = input.value.split("\n").map((line) => line.trim()).filter(Boolean);
      return this.tell(name, flag.repeats && lines.length > 1 ? lines : lines[0]);
    });
    this.updates.push((flags) => {
      if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = flags[name] !== undefined;
      else if (document.activeElement !== input) input.value = textOf(flags[name]);
    });
    return element("div", { class: "field plain" }, element("label", { for: id }, name), input, element("small", {}, flag.help));
  }

  private inputOf(flag: Flag, id: string): HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement {
    const words = flag.choices.length > 0 ? flag.choices : this.tables.library[flag.words] ?? [];
    if (flag.value === "") return element("input", { type: "checkbox", id });
    if (words.length > 0) return element("select", { id }, element("option", { value: "" }, "as usual"), ...words.map((word) => element("option", { value: word }, word)));
    if (flag.repeats) return element("textarea", { id, rows: "2", placeholder: `${flag.value}, one a line`, spellcheck: "false" });
    return element("input", { type: "text", id, placeholder: flag.value, autocomplete: "off", spellcheck: "false" });
  }
}
