// SPDX-License-Identifier: Apache-2.0
// The explorer's core answers as the program does: every number of jobs.txt to 1e-12, every text, every drawing of some pages.
//   node same_numbers.mjs TRIPLEPOINT FOLDER        FOLDER: as `make explore` writes it
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { coreOf, flagsOf, wordsOf } from "./core.mjs";

const bound = 1e-12;
const nothing = 1e-14; // seconds, joules, ...: what differences of equal numbers leave, as of a bubble that is none
const [program, folder] = process.argv.slice(2);
const core = await coreOf(folder);
const lines = readFileSync(new URL("jobs.txt", import.meta.url), "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
const count = { jobs: 0, numbers: 0, equal: 0, texts: 0, drawings: 0 };
let worst = 0;
const problems = [];

const numeric = (text) => typeof text === "string" && text.trim() !== "" && Number.isFinite(Number(text));

/** `made`: by the core; `own`: by the program. */
function compare(where, made, own) {
  if (where.endsWith(".producer")) return; // the program's has its commit
  if (numeric(made) && numeric(own)) [made, own] = [Number(made), Number(own)]; // facts are texts
  if (typeof own === "number" && typeof made === "number") {
    const size = Math.max(Math.abs(made), Math.abs(own));
    const apart = Math.abs(made - own);
    const error = apart <= nothing ? 0 : apart / size;
    count.numbers += 1;
    if (made === own) count.equal += 1;
    worst = Math.max(worst, error);
    if (error > bound) problems.push(`${where}: ${made}, the program ${own}`);
  } else if (own !== null && typeof own === "object" && made !== null && typeof made === "object") {
    for (const key of new Set([...Object.keys(own), ...Object.keys(made)])) compare(`${where}.${key}`, made[key], own[key]);
  } else {
    count.texts += 1;
    if (made !== own) problems.push(`${where}: ${JSON.stringify(made)}, the program ${JSON.stringify(own)}`);
  }
}

function ask(words) {
  const done = execFileSync(program, [...words, "--format", "json"], { stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 28 });
  return JSON.parse(done.toString());
}

function plan(line, words) {
  const search = new Set(core.call("flags", {}).plan.flatMap((flag) => flag.names));
  const all = Object.entries(flagsOf(words));
  const split = (inside) => Object.fromEntries(all.filter(([name]) => search.has(name) === inside));
  const answer = core.call("plan", { flags: split(false), plan: { ...split(true), "--threads": "1" } });
  if (answer.error) return problems.push(`${line}: ${answer.error}`);
  const own = ask(["plan", ...words, "--threads", "1"]);
  delete own.schema;
  return compare(line, answer.answer, own);
}

function job(line, words) {
  const flags = flagsOf(words);
  const results = core.call("results", { flags });
  if (results.error) return problems.push(`${line}: ${results.error}`);
  compare(line, results, ask(["simulate", ...words]));
  const plain = !["--duration", "--steps"].some((flag) => flag in flags);
  const step = core.call("step", { flags });
  const whole = results.step_time_s ?? null; // in a run, times are whole nanoseconds
  const near = whole === null ? step.step_time_s === null : Math.abs(step.step_time_s - whole) <= 2e-9;
  if (plain && !near) problems.push(`${line}: step ${step.step_time_s}, the run ${whole}`);
  return undefined;
}

/** The drawings of a run's page, byte by byte. */
function drawings(line, words) {
  const scratch = mkdtempSync(join(tmpdir(), "triplepoint-explore-"));
  const [run, page] = [join(scratch, "job.run"), join(scratch, "job.html")];
  execFileSync(program, ["simulate", ...words, "-o", run], { stdio: "ignore" });
  execFileSync(program, ["report", run, "-o", page], { stdio: "ignore" });
  const drawn = (html) => html.match(/<svg viewBox[\s\S]*?<\/svg>/g) ?? [];
  const [made, own] = [drawn(core.call("page", { flags: flagsOf(words) }).html), drawn(readFileSync(page, "utf8"))];
  rmSync(scratch, { recursive: true });
  if (made.length !== own.length || own.length === 0) problems.push(`${line}: ${made.length} drawings, the program ${own.length}`);
  own.forEach((svg, i) => {
    count.drawings += 1;
    if (svg !== made[i]) problems.push(`${line}: drawing ${i} differs: ${made[i]?.slice(0, 120)}`);
  });
}

for (const line of lines) {
  const words = wordsOf(line);
  count.jobs += 1;
  try {
    words[0] === "plan" ? plan(line, words.slice(1)) : job(line, words);
  } catch (error) {
    problems.push(`${line}: ${error.message}`);
  }
}
for (const line of lines.slice(0, 4)) drawings(line, wordsOf(line));

console.log(`${count.jobs} jobs, ${count.numbers} numbers, ${count.equal} equal to the bit, worst ${worst.toExponential(1)}; ${count.texts} texts, ${count.drawings} drawings`);
for (const problem of problems.slice(0, 20)) console.error(problem);
if (problems.length > 20) console.error(`and ${problems.length - 20} more`);
process.exit(problems.length > 0 ? 1 : 0);
