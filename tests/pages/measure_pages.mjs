// SPDX-License-Identifier: Apache-2.0
// How fast pages are in a headless Chromium on this machine; prints numbers, judges none of them.
//   node measure_pages.mjs SAMPLE_PAGES_PROGRAM | FILE.html ...
// load: from asking for the file until its script has ended, median of five; frames: while zooming the timeline in and out
// by wheel, or while scrolling through a page without one; filter: from a click to the next frame. Beside each, what it
// takes of the main thread's CPU time, which other programs do not disturb.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch, openPage } from "./browser.mjs";
import { samplePlots, sampleTimeline, withTimeline } from "./sample_timeline.mjs";

const frameCount = 480;

function samplePages(program, folder) {
  execFileSync(program, [folder]);
  const run = readFileSync(join(folder, "run.html"), "utf8");
  const made = { "32-ranks": { microbatches: 128 }, "32-ranks-of-spans": { microbatches: 32, layers: 12, expanded: true },
    "1024-ranks": { ranks: 1024, stages: 16, microbatches: 64, layers: 6 } };
  for (const [name, options] of Object.entries(made)) {
    const timeline = sampleTimeline(options);
    writeFileSync(join(folder, `${name}.html`), withTimeline(run, timeline, samplePlots((1.2 * timeline.length) / 1e9)));
  }
  return ["study", "run", ...Object.keys(made)].map((name) => join(folder, `${name}.html`));
}

/** Runs in the page: frames a second over `frames` frames, of which each does a step; and the 95th percentile of their times. */
function frames(count) {
  const body = document.querySelector(".timeline-body");
  body?.focus();
  const box = body?.getBoundingClientRect();
  const step = (n) => {
    const deltaY = n % 240 < 120 ? -35 : 35;
    if (body) body.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: box.left + 400 + (n % 7), clientY: box.top + 90, bubbles: true, cancelable: true }));
    else scrollBy({ top: n % 480 < 240 ? 40 : -40, behavior: "instant" });
  };
  return new Promise((done) => {
    const times = [];
    const first = performance.now();
    let last = first;
    const frame = () => {
      const now = performance.now();
      times.push(now - last);
      last = now;
      step(times.length);
      if (times.length < count) return requestAnimationFrame(frame);
      times.sort((a, b) => a - b);
      done({ rate: (1000 * count) / (now - first), slow: times[Math.floor(0.95 * count)] });
    };
    requestAnimationFrame(frame);
  });
}

function filterTime() {
  const box = document.querySelector(".facet-choices input");
  if (!box) return null;
  const first = performance.now();
  box.click();
  return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - first))));
}

/** Milliseconds of CPU time that the page's main thread has used so far. */
async function cpuClock(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => 1000 * (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
}

async function loadOnce(browser, file) {
  const { context, page } = await openPage(browser, "about:blank", { width: 1280 });
  const cpu = await cpuClock(page);
  const before = await cpu();
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  const load = await page.evaluate(() => performance.now());
  return { context, page, cpu, load, loadCpu: (await cpu()) - before };
}

async function measure(browser, file) {
  const loads = [];
  for (let i = 0; i < 4; ++i) {
    const { context, load } = await loadOnce(browser, file);
    loads.push(load);
    await context.close();
  }
  const { context, page, cpu, load, loadCpu } = await loadOnce(browser, file);
  loads.push(load);
  loads.sort((a, b) => a - b);
  const before = await cpu();
  const { rate, slow } = await page.evaluate(frames, frameCount);
  const frameCpu = ((await cpu()) - before) / frameCount;
  const filter = await page.evaluate(filterTime);
  await context.close();
  console.log(`${basename(file)}: ${(statSync(file).size / 1e6).toFixed(2)} MB, load ${loads[2].toFixed(0)} ms (CPU ${loadCpu.toFixed(0)}), ` +
    `${rate.toFixed(0)} frames/s (95 % within ${slow.toFixed(0)} ms, CPU ${frameCpu.toFixed(1)} ms)${filter === null ? "" : `, filter ${filter.toFixed(0)} ms`}`);
}

const browser = await launch();
const scratch = mkdtempSync(join(tmpdir(), "triplepoint-pages-"));
const given = process.argv.slice(2);
for (const file of given.every((name) => name.endsWith(".html")) ? given : samplePages(given[0], scratch)) await measure(browser, file);
await browser.close();
rmSync(scratch, { recursive: true, force: true });
