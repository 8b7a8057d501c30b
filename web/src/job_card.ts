// SPDX-License-Identifier: Apache-2.0
// One click on what belongs to a job shows the job: its numbers, and the way to its run. One on a GPU shows its curves.
import { asButton, Card, onPress, type Mark } from "./card";
import { button, element } from "./elements";
import { type Job, pageData } from "./page_data";
import { addRoving } from "./roving";

function tableRow(name: string): HTMLTableRowElement | null {
  return document.querySelector<HTMLTableRowElement>(`.jobs tr[data-job="${CSS.escape(name)}"], .best tr[data-job="${CSS.escape(name)}"]`);
}

/** The headings of the table of jobs, each with the job's cell; empty cells are left out. */
function numbersOf(name: string): [string, string][] {
  const row = tableRow(name);
  const headings = [...(row?.closest("table")?.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
  return headings.slice(1).map((heading, i): [string, string] => [heading, row?.cells[i + 1]?.textContent ?? ""])
    .filter(([, text]) => text !== "");
}

function describe(job: Job): HTMLElement {
  const list = element("dl");
  const numbers = numbersOf(job.name);
  const facts: [string, string][] = numbers.length > 0 ? numbers : [
    ["model", job.model], ["machine", job.machine], ["layout", job.layout], ["optimization", job.variant],
    ["microbatch", String(job.microbatch)], ["verdict", job.verdict]];
  for (const [name, text] of facts) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, text)));
  return list;
}

function openJob(card: Card, job: Job, opener: Mark): void {
  const actions = element("p", { class: "actions" });
  if (job.page) actions.append(element("a", { href: job.page }, job.page.endsWith(".toml") ? "Open its job file" : "Open its run"));
  const row = tableRow(job.name);
  const showRow = (): void => {
    card.hide();
    row!.hidden = false;
    row!.scrollIntoView({ block: "center" });
    row!.querySelector<HTMLElement>("button, a")?.focus();
  };
  if (row && !row.contains(opener)) actions.append(button("Show in the table", showRow));
  card.open(job.name, opener, describe(job), actions);
}

/** Names of jobs in the table become buttons. */
function addRowButtons(): void {
  for (const body of document.querySelectorAll<HTMLTableSectionElement>(".jobs tbody, .misses tbody, .best tbody")) {
    for (const cell of body.querySelectorAll<HTMLTableCellElement>("tr[data-job] > th:first-child")) {
      if (cell.querySelector("a, button")) continue;
      cell.replaceChildren(element("button", { type: "button", class: "job", "aria-haspopup": "dialog" }, cell.textContent ?? ""));
    }
    addRoving(body, () => [...body.querySelectorAll<HTMLElement>("tr:not([hidden]) > th .job")]);
  }
}

function addMarkButtons(selector: string): void {
  for (const svg of document.querySelectorAll<SVGSVGElement>("svg")) {
    const marks = [...svg.querySelectorAll<SVGElement>(selector)];
    marks.forEach(asButton);
    if (marks.length > 0) addRoving(svg.parentElement!, () => marks.filter((mark) => !mark.classList.contains("off")));
  }
}

function addJobs(card: Card): void {
  const jobs = new Map((pageData().jobs ?? []).map((job) => [job.name, job]));
  if (jobs.size === 0) return;
  addRowButtons();
  addMarkButtons("[data-job]");
  onPress("svg [data-job], tr[data-job] .job", (mark, event) => {
    const job = jobs.get(mark.closest<HTMLElement>("[data-job]")?.dataset.job ?? "");
    if (!job || mark.classList.contains("off")) return;
    event.preventDefault();
    openJob(card, job, mark);
  });
}

function addGpus(card: Card): void {
  const curves = new Map([...document.querySelectorAll("template")].map((each) => [each.dataset.gpu, each.innerHTML]));
  if (curves.size === 0) return;
  addMarkButtons("[data-gpu]");
  onPress("svg [data-gpu]", (mark, event) => {
    event.preventDefault();
    card.openGpu(mark, curves.get(mark.dataset.gpu) ?? "");
  });
}

export function addCards(): void {
  const card = new Card();
  addJobs(card);
  addGpus(card);
}
