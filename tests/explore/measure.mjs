// SPDX-License-Identifier: Apache-2.0
// How fast the explorer is in a headless Chromium on this machine; prints numbers, judges none of them.
//   node measure.mjs FOLDER
// first: from opening by file:// until all is drawn, as it opens and with a job in its address; of that from the navigation on until the step time and until all is
// drawn, which leaves out the browser's new window; step, all: from an input until verdict and step time, and until everything is redrawn; main: the longest task of the main thread; memory: of the page after 1,000 changes over that after 100.
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { launch, openPage } from "../pages/browser.mjs";

const file = join(process.argv[2], "explore.html");
const share = (list, of) => list.sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(of * list.length))];
const text = (list) => `median ${share(list, 0.5).toFixed(0)} ms, p95 ${share(list, 0.95).toFixed(0)} ms of ${list.length}`;

/** In the page: sets the inlet `count` times, and waits for both answers each time. */
async function changes(count) {
  const range = document.querySelector('[id="f--ambient"]');
  const steps = [], all = [];
  const next = (name) => new Promise((done) => {
    const observer = new PerformanceObserver((list) => list.getEntriesByName(name).length > 0 && (observer.disconnect(), done(performance.now())));
    observer.observe({ type: "mark" });
  });
  for (let i = 0; i < count; ++i) {
    const begin = performance.now();
    const [step, run] = [next("step-shown"), next("run-shown")];
    range.value = String(20 + (i % 40) / 2);
    range.dispatchEvent(new Event("change"));
    steps.push((await step) - begin);
    all.push((await run) - begin);
  }
  return { steps, all };
}

const browser = await launch();
console.log(`load ${loadavg()[0].toFixed(1)} of ${cpus().length} cores`);
for (const [what, hash] of [["as it opens", ""], ["a job in the address", "#?model=llama3-8b&cluster=hgx-h100&nodes=1&gbs=64"]]) {
  const firsts = [], steps = [], drawn = [];
  for (let i = 0; i < 5; ++i) {
    const begin = performance.now();
    const { context, page } = await openPage(browser, file, { width: 1600, hash });
    firsts.push(performance.now() - begin);
    const [step, run] = await page.evaluate(() => ["step-shown", "run-shown"].map((name) => performance.getEntriesByName(name)[0].startTime));
    steps.push(step);
    drawn.push(run);
    await context.close();
  }
  console.log(`first answer, ${what}: ${text(firsts)}; from the navigation: step ${text(steps)}; all ${text(drawn)}; load ${loadavg()[0].toFixed(1)}`);
}
const jobs = { "32 GPUs": "", "1,024 GPUs": "#?model=gpt3-175b&cluster=hgx-h100&nodes=128&tp=8&pp=8&gbs=1024" };
for (const [name, hash] of Object.entries(jobs)) {
  const { context, page } = await openPage(browser, file, { width: 1600 });
  await page.evaluate(() => {
    globalThis.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((task) => (globalThis.longest = Math.max(globalThis.longest, task.duration)))).observe({ type: "longtask" });
  });
  if (hash) await page.evaluate((to) => (location.hash = to), hash);
  await page.evaluate(changes, 3);
  const { steps, all } = await page.evaluate(changes, hash ? 20 : 100);
  console.log(`${name}: step ${text(steps)}; all ${text(all)}; longest task ${Math.round(await page.evaluate(() => globalThis.longest))} ms`);
  if (!hash) {
    const used = () => page.evaluate(() => performance.memory.usedJSHeapSize / 1e6);
    const before = await used();
    await page.evaluate(changes, 900);
    console.log(`memory: ${before.toFixed(0)} MB after 100 changes, ${(await used()).toFixed(0)} MB after 1,000`);
  }
  await context.close();
}
await browser.close();
