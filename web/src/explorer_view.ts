// SPDX-License-Identifier: Apache-2.0
// The middle: the verdict, key figures, the bill, memory, and the drawings of the run's page.
import type { Answer } from "./explorer_core";
import { asButton } from "./card";
import { element } from "./elements";
import { addRoving, marksChanged } from "./roving";

interface Memory {
  peak_gib: number;
  limit_gib: number;
  stage: number;
  fits: boolean;
}

/** The answer to "step". */
export interface StepAnswer extends Answer {
  settings: Record<string, string>;
  num_gpus: number;
  memory: Memory;
  step_time_s: number | null;
  tokens_per_s: number | null;
}

/** The answer to "simulate". */
export interface RunAnswer extends Answer {
  ok: boolean; // it fits, and no heat shuts it down
  title: string;
  verdict: string;
  settings: Record<string, string>;
  key_figures: { label: string; value: string; remark: string }[];
  bill: string | null;
  findings: string[];
  figures: { id: string; html: string }[];
}

/** Tiles that follow a slider, and the key figures that say more of them. */
const quickLabels: Record<string, string> = { "tokens/s": "speed", step: "step time" };

const digits = (value: number): string => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3));

function tile(label: string, value: string, remark: string, measured?: string): HTMLElement {
  const [, number, unit] = /^([\d.,]+ )(.+)$/.exec(value) ?? ["", value, ""];
  return element("li", {}, element("span", {}, label), element("b", {}, number!, element("i", {}, unit!)),
    ...(measured ? [element("small", { class: "measured" }, `measured: ${measured}`)] : []), ...(remark ? [element("small", {}, remark)] : []));
}

const sliceMs = 30; // of drawings put in, then a pause

export class View {
  readonly root = element("section", { class: "answer", "aria-label": "How it goes" });
  private readonly title = element("h1", {}, "…");
  private readonly verdict = element("p", { class: "verdict", role: "status", "aria-live": "polite" });
  private readonly quick = element("ul", { class: "tiles quick" });
  private readonly tiles = element("ul", { class: "tiles" });
  private readonly bill = element("p", { class: "facts" });
  private readonly findings = element("ol", { class: "findings" });
  private readonly figures = element("div", { class: "figures" });
  private remarks: [title: string, remark: string, measured: string][] = [];
  private drawn = new Map<string, { html: string; node: HTMLElement }>();

  constructor() {
    this.root.append(this.title, this.verdict, this.quick, this.tiles, this.bill, this.figures, element("h2", {}, "What stands out"), this.findings);
    addRoving(this.figures, () => [...this.figures.querySelectorAll<SVGElement>("[data-gpu]")]);
  }

  /** A few milliseconds after the input; the rest is of the job before, and looks so. */
  showStep(step: StepAnswer, restIsLate: boolean): void {
    this.root.classList.add("older");
    this.root.classList.remove("failed");
    const { peak_gib: peak, limit_gib: limit, fits, stage } = step.memory;
    const share = Math.min(100, (100 * peak) / limit);
    const bar = element("div", { class: fits ? "memory" : "memory over", role: "img", "aria-label": `${digits(peak)} of ${digits(limit)} GiB` }, element("i"));
    (bar.firstElementChild as HTMLElement).style.width = `${share}%`;
    const room = fits ? `${digits(limit - peak)} GiB free on stage ${stage}` : `${digits(peak - limit)} GiB too much on stage ${stage}`;
    const memory = tile("memory of the fullest GPU", `${digits(peak)} of ${digits(limit)} GiB`, room);
    memory.append(bar);
    if (restIsLate) this.showVerdict(`${fits ? "Fits in memory" : "Out of memory"}: the fullest GPU (stage ${stage}) needs ${digits(peak)} GiB of ${digits(limit)} GiB.`, fits);
    this.quick.replaceChildren(
      tile("tokens/s", step.tokens_per_s === null ? "–" : digits(step.tokens_per_s), `${step.num_gpus} GPUs`),
      tile("step", step.step_time_s === null ? "–" : `${digits(step.step_time_s)} s`, fits ? "" : "does not fit in memory"),
      memory);
    this.showRemarks();
  }

  /** `measured`: key figures of the recording that the job is of. */
  async showRun(run: RunAnswer, measured: Record<string, string>, stale: () => boolean): Promise<void> {
    this.root.classList.remove("older", "failed");
    this.title.textContent = run.title;
    this.showVerdict(run.verdict, run.ok);
    const figures = new Map(run.key_figures.map((figure) => [figure.label, figure]));
    this.remarks = Object.entries(quickLabels).map(([title, label]) => [title, figures.get(label)?.remark ?? "", measured[label] ?? ""]);
    this.showRemarks();
    const others = run.key_figures.filter(({ label }) => !Object.values(quickLabels).includes(label));
    this.tiles.replaceChildren(...others.map(({ label, value, remark }) => tile(label, value, remark, measured[label])));
    this.bill.textContent = run.bill ?? "";
    this.findings.replaceChildren(...run.findings.map((text) => element("li", {}, text)));
    await this.showFigures(run.figures, stale);
  }

  /** What only the whole run knows of a quick tile; that of the job before stands until then, so that nothing jumps. */
  private showRemarks(): void {
    for (const [title, remark, measured] of this.remarks) {
      const place = [...this.quick.children].find((each) => each.firstElementChild?.textContent === title);
      place?.querySelectorAll("small.run, small.measured").forEach((each) => each.remove());
      if (measured) place?.append(element("small", { class: "measured" }, `measured: ${measured}`));
      if (remark) place?.append(element("small", { class: "run" }, remark));
    }
  }

  showError(sentence: string): void {
    this.root.classList.remove("older");
    this.root.classList.add("failed");
    this.showVerdict(sentence, false);
  }

  private showVerdict(sentence: string, good: boolean): void {
    this.verdict.textContent = sentence;
    this.verdict.classList.toggle("bad", !good);
  }

  /** Figures that did not change stay as they are, with what was opened in them. Long work pauses for the page; what is newer
   *  ends it. */
  private async showFigures(figures: RunAnswer["figures"], stale: () => boolean): Promise<void> {
    let begin = performance.now();
    let place = this.figures.firstElementChild;
    for (const { id, html } of figures) {
      const node = this.drawn.get(id)?.node ?? element("div", { class: `figure-${id}` });
      if (node === place) place = place.nextElementSibling;
      else this.figures.insertBefore(node, place);
      if (this.drawn.get(id)?.html === html) continue;
      if (performance.now() - begin > sliceMs) {
        await new Promise((done) => setTimeout(done));
        if (stale()) return;
        begin = performance.now();
      }
      node.innerHTML = html; // the core has escaped every text
      node.classList.toggle("wide", node.querySelector("figure.wide") !== null);
      node.querySelectorAll<SVGElement>("[data-gpu]").forEach(asButton);
      this.drawn.set(id, { html, node });
    }
    for (const [id, { node }] of this.drawn) {
      if (figures.some((each) => each.id === id)) continue;
      node.remove();
      this.drawn.delete(id);
    }
    document.dispatchEvent(new Event(marksChanged));
  }
}
