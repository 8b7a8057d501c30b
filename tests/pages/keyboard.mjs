// SPDX-License-Identifier: Apache-2.0
// Every control by keyboard alone: the tabulator reaches it, Enter or the space bar works it.

/** Goes through the page with the tabulator; says what it never reached. */
export async function walk(page) {
  const wanted = await page.evaluate(() => {
    const isShown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.closest("[hidden]") === null;
    const controls = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")]
      .filter((element) => element.tabIndex >= 0 && !element.disabled && isShown(element));
    controls.forEach((element, i) => (element.dataset.walk = String(i)));
    document.activeElement?.blur?.();
    scrollTo(0, 0);
    return controls.map((element) => `${element.tagName.toLowerCase()} "${(element.getAttribute("aria-label") ?? element.textContent ?? "").trim().slice(0, 40)}"`);
  });
  const reached = new Set();
  for (let i = 0; i < wanted.length + 20; ++i) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => document.activeElement?.dataset?.walk);
    if (at !== undefined) reached.add(Number(at));
    if (reached.size === wanted.length) break;
  }
  return wanted.filter((_, i) => !reached.has(i)).map((name) => `the tabulator does not reach ${name}`);
}

async function check(problems, good, what) {
  if (!(await good)) problems.push(what);
}
const count = (page) => page.locator("#filter-count").textContent();

async function tryFilters(page, problems) {
  const menu = page.locator("details.facet").first();
  if ((await menu.count()) === 0) return;
  const before = await count(page);
  await menu.locator("summary").focus();
  await page.keyboard.press("Enter");
  await check(problems, menu.evaluate((element) => element.open), "Enter does not open a filter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  const after = await count(page);
  if (after === before) problems.push("a filter leaves the number of jobs as it was");
  await check(problems, page.evaluate(() => location.hash.includes("?")), "a filter is not in the address");
  await check(problems, page.evaluate(() => document.querySelector(".jobs tbody tr[hidden]") !== null), "a filter hides no row of the table");
  await check(problems, page.evaluate(() => document.querySelector("svg [data-job]") === null || document.querySelector("svg .off") !== null), "a filter dims no mark");
  const shared = page.url();
  await page.keyboard.press("Escape");
  await check(problems, menu.evaluate((element) => !element.open), "Escape does not close a filter");
  await page.goto("about:blank");
  await page.goto(shared);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  if ((await count(page)) !== after) problems.push("the address does not bring the filter back");
  await page.locator(".filters .clear").focus();
  await page.keyboard.press("Enter");
  if ((await count(page)) !== before) problems.push("clearing does not bring all jobs back");
}

async function tryTable(page, problems) {
  const heading = page.locator(".jobs thead button").nth(1);
  if ((await heading.count()) === 0) return;
  await heading.focus();
  await page.keyboard.press("Enter");
  await check(problems, page.evaluate(() => document.querySelectorAll(".jobs [aria-sort]").length === 1), "sorting marks no column");
  await page.locator("#filter").focus();
  await page.keyboard.type("zzzz-no-such-job");
  await check(problems, page.evaluate(() => document.querySelector(".jobs tbody tr:not([hidden])") === null), "the search lets everything through");
  await page.locator("#filter").fill("tp2");
  await check(problems, page.evaluate(() => document.querySelector(".jobs .job") === null || document.querySelector(".jobs tr:not([hidden]) .job[tabindex='0']") !== null),
    "after a search the tabulator finds no job");
  await page.locator("#filter").fill("");
  await check(problems, page.evaluate(() => document.querySelector(".jobs tbody tr[hidden]") === null), "the empty search hides jobs");
}

/** A GPU of the chassis shows its curves. */
export async function tryGpus(page, problems) {
  const mark = page.locator("svg [data-gpu][tabindex='0']").first();
  if ((await mark.count()) === 0) return;
  await mark.focus();
  await page.keyboard.press("Enter");
  const card = page.locator(".card");
  await check(problems, card.locator("svg path.line").first().waitFor({ timeout: 5000 }).then(() => true, () => false), "Enter on a GPU shows no curves");
  await page.keyboard.press("Escape");
  await check(problems, card.isHidden(), "Escape does not close the card of a GPU");
  await check(problems, page.evaluate(() => document.activeElement?.hasAttribute("data-gpu")), "the focus does not return to the GPU");
}

/** A mark of a chart and a name in the table both show their job. */
async function tryCards(page, problems) {
  for (const selector of ["svg [data-job][tabindex='0']", ".jobs .job[tabindex='0']"]) {
    const mark = page.locator(selector).first();
    if ((await mark.count()) === 0) continue;
    await mark.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const card = page.locator(".card");
    await check(problems, card.isVisible(), `Enter on ${selector} shows no job`);
    await check(problems, page.evaluate(() => document.querySelector(".card").contains(document.activeElement)), "the card of a job does not take the focus");
    if ((await card.locator("dd").count()) < 3) problems.push("the card of a job shows no numbers");
    await page.keyboard.press("Escape");
    await check(problems, card.isHidden(), "Escape does not close the card of a job");
    await check(problems, page.evaluate(() => document.activeElement?.closest("[data-job]") !== null), "the focus does not return to the mark");
  }
}

async function tryDownload(page, problems) {
  const details = page.locator("details.data:visible").first();
  if ((await details.count()) === 0) return;
  await details.locator("summary").focus();
  await page.keyboard.press("Enter");
  await check(problems, details.evaluate((element) => element.open), "Enter does not open the numbers of a chart");
  const saving = page.waitForEvent("download", { timeout: 5000 }).catch(() => null);
  await details.locator("button.csv").focus();
  await page.keyboard.press("Enter");
  if (!(await saving)) problems.push("the CSV button saves nothing");
}

const windowOf = (page) => page.evaluate(() => {
  const { from, to } = document.querySelector("#timeline").dataset;
  return [Number(from), Number(to)];
});

async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return windowOf(page);
}

async function tryTimeline(page, problems) {
  const body = page.locator(".timeline-body");
  if ((await body.count()) === 0) return;
  await body.focus();
  const hasRanks = (await page.locator(".timeline-legend").count()) > 0;
  const home = await press(page, "0");
  const closer = await press(page, "+", "+", "+");
  if (!(closer[1] - closer[0] < 0.2 * (home[1] - home[0]))) problems.push("plus does not zoom in");
  const later = await press(page, "ArrowRight");
  if (!(later[0] > closer[0])) problems.push("the right arrow does not move on");
  const deep = await press(page, ..."+".repeat(40));
  if (hasRanks && !(deep[1] - deep[0] <= 1000)) problems.push(`the closest zoom shows ${deep[1] - deep[0]} ns, more than a microsecond`);
  const back = await press(page, "0");
  if (back[0] !== home[0] || back[1] !== home[1]) problems.push("0 does not lead back to the whole timeline");
  if (!hasRanks) return;
  await press(page, ".", ".");
  const said = await page.locator(".timeline-said").textContent();
  if (!/rank .*duration/.test(said ?? "")) problems.push(`stepping to a span says only "${said}"`);
  await press(page, "Enter");
  await press(page, "ArrowDown", "]", "[", "Escape", "0");
  const toggle = page.locator(".timeline-legend button").first();
  await toggle.focus();
  await page.keyboard.press("Space");
  await check(problems, toggle.evaluate((element) => element.getAttribute("aria-pressed") === "false"), "the space bar does not switch a class off");
  await page.keyboard.press("Space");
  await page.locator(".timeline-tools input").focus();
  await page.keyboard.type("a");
  await page.keyboard.press("Enter");
  await check(problems, page.locator(".timeline-hits").textContent().then((text) => /\d+ span|none/.test(text ?? "")), "searching finds nothing and says nothing");
  await page.locator(".timeline-tools input").fill("");
}

export async function tryControls(page) {
  const problems = [];
  await tryFilters(page, problems);
  await tryTable(page, problems);
  await tryCards(page, problems);
  await tryGpus(page, problems);
  await tryDownload(page, problems);
  await tryTimeline(page, problems);
  return problems;
}
