// SPDX-License-Identifier: Apache-2.0
// The explorer's page in a headless Chromium, by file://: it predicts, greys what cannot be, compares, plans, and asks nobody.
//   node page.mjs FOLDER        [SCREENSHOTS=folder in the environment]        77: there is no Chromium, or nothing to drive it
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { axeSource, launch, openPage } from "../pages/browser.mjs";
import { inspect } from "../pages/inspect.mjs";
import { tryGpus, walk } from "../pages/keyboard.mjs";

const file = join(process.argv[2], "explore.html");
const pictures = process.env.SCREENSHOTS;
const failures = [];
const check = (what, ok) => ok || failures.push(what);

const tokens = (page) => page.textContent(".tiles.quick li:first-child b");
const press = (page, legend, value) => page.click(`.field:has(> legend:text-is("${legend}")) .steps button:text-is("${value}")`);
const shown = (page) => page.evaluate(() => Number(document.documentElement.dataset.shown));

/** Does something, and waits until the job that follows from it is drawn. */
async function settle(page, act) {
  const before = await shown(page);
  await act();
  await page.waitForFunction((version) => Number(document.documentElement.dataset.shown) > version, before, { timeout: 30000 });
}

async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: name.includes("whole") });
}

async function work(page) {
  check("the first answer has no verdict", (await page.textContent(".answer .verdict")).startsWith("Fits in memory"));
  const problems = [];
  await tryGpus(page, problems);
  failures.push(...problems);
  check("there are fewer than five drawings", (await page.locator(".answer figure svg").count()) >= 5);
  const first = await tokens(page);
  await page.getByRole("button", { name: "Pin this job" }).click();
  await settle(page, () => press(page, "Tensor parallel", "4"));
  check("another layout is as fast", (await tokens(page)) !== first);
  await page.waitForSelector(".differs svg", { timeout: 30000 });
  check("a comparison says nothing", (await page.locator(".differs .findings li").count()) > 0);
  await page.waitForSelector(".steps button[data-no]", { timeout: 30000 });
  const refused = page.locator(".steps button[data-no]").first();
  await refused.click({ force: true }); // it says that it is disabled, and why
  check("a refused value does not say why", (await page.locator(".why:visible").first().textContent()).length > 10);
  const range = page.locator('input[type="range"]').first();
  await settle(page, async () => {
    await range.focus();
    await page.keyboard.press("ArrowLeft");
  });
  await page.waitForSelector(".panel .drawing svg", { timeout: 30000 });
  check("the address does not hold the job", (await page.evaluate(() => location.hash)).includes("tp=4"));
  const address = await page.evaluate(() => location.hash);
  await page.reload();
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });
  check("the address does not bring the job back", (await page.evaluate(() => location.hash)) === address);
  check("the address does not bring the pin back", (await page.locator(".pins li").count()) === 1);
}

async function search(page) {
  await page.evaluate(() => (location.hash = "#?model=llama3-8b&cluster=hgx-h100&nodes=1&gbs=64"));
  await page.getByRole("button", { name: "Find the best plan" }).last().click();
  await page.waitForSelector(".plans .use button", { timeout: 120000 });
  await page.waitForSelector(".plans svg [data-job]", { state: "attached", timeout: 120000 });
  await settle(page, () => page.locator(".plans .use button").first().click());
  check("a plan is not beside the job that was asked of", (await page.locator(".pins li").count()) === 1);
  await page.waitForSelector(".differs svg", { timeout: 30000 });
  check("a plan does not reach the job", (await page.evaluate(() => location.hash)).includes("mbs="));
}

async function drop(page) {
  const config = { model_type: "llama", architectures: ["LlamaForCausalLM"], hidden_size: 4096, intermediate_size: 11008, num_attention_heads: 32,
    num_hidden_layers: 32, num_key_value_heads: 32, vocab_size: 32000, max_position_embeddings: 4096, rms_norm_eps: 1e-5, torch_dtype: "bfloat16" };
  const give = (name, text) => page.setInputFiles("#file", { name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await settle(page, () => give("config.json", JSON.stringify(config)));
  check("a config.json is not read", /llama/i.test(await page.textContent(".answer h1")));
  await settle(page, () => give("train.sh", "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 " +
    "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 --vocab-size 32000 " +
    "--tensor-model-parallel-size 2 --bf16\n"));
  check("a launch script is not read", (await page.textContent(".answer h1")).includes("on 16 x H200: TP2"));
  const hostile = { "broken.toml": "model = [", "deep.json": "[".repeat(100000), "bomb.yaml": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b", "nothing.json": "",
    "noise.bin": "\u0000\u0001\ufffd".repeat(1000), "<img src=x onerror=alert(1)>.toml": "x = 1" };
  for (const [name, text] of Object.entries(hostile)) {
    await give(name, text);
    const told = name.replace(/[^\w.-]/g, "_"); // as it is called in the page
    await page.waitForFunction((word) => document.querySelector(".answer.failed .verdict")?.textContent.includes(word), told, { timeout: 10000 })
      .catch(() => failures.push(`${name} has no sentence`));
  }
  check("a file's name became markup", (await page.locator("img").count()) === 0);
}

async function barriers(page) {
  const axe = axeSource();
  if (!axe) return [];
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `axe ${id}: ${help} (${nodes.length}, first: ${nodes[0].html.slice(0, 160)})`);
}

const browser = await launch();
async function look({ width, theme }) {
  const { context, page, problems } = await openPage(browser, file, { width, theme });
  await page.waitForSelector(".panel .drawing svg", { timeout: 30000 });
  await picture(page, `explore-${width}-${theme}`);
  await picture(page, `explore-${width}-${theme}-whole`);
  const told = [...problems, ...(await page.evaluate(inspect)), ...(await barriers(page)), ...(await walk(page))];
  failures.push(...told.map((problem) => `${width} px, ${theme}: ${problem}`));
  await context.close();
}
for (const width of [1600, 768, 390]) {
  for (const theme of ["light", "dark"]) {
    // A browser that is left open would keep this program from ending.
    await look({ width, theme }).catch((error) => failures.push(`${width} px, ${theme} broke off: ${error.message}`));
  }
}
async function act(name, story) {
  const { context, page, problems } = await openPage(browser, file, { width: 1600 });
  await story(page);
  await picture(page, `explore-${name}`);
  failures.push(...problems.map((problem) => `${name}: ${problem}`));
  await context.close();
}
for (const [name, story] of Object.entries({ work, search, drop })) {
  await act(name, story).catch((error) => failures.push(`${name} broke off: ${error.message}`));
}
await browser.close();
for (const failure of failures) console.error(failure);
process.exit(failures.length > 0 ? 1 : 0);
