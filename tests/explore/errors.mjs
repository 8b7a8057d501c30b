// SPDX-License-Identifier: Apache-2.0
// What cannot be answered ends in a sentence, and the core answers the next request.
//   node errors.mjs FOLDER
import { coreOf, packOf } from "./core.mjs";

const core = await coreOf(process.argv[2]);
const good = { "--model": "gpt3-175b", "--cluster": "hgx-h200", "--nodes": "4", "--tp": "8", "--pp": "4" };
core.mount(packOf("/dropped/broken.json", "{\"model_type\": \"llama\", "));
core.mount(packOf("/dropped/deep.json", "[".repeat(200000)));
core.mount(packOf("/dropped/binary.toml", "\0\xff\xfe\x01"));
core.mount(packOf("/dropped/loop.sh", "while true; do torchrun $X; done\n"));
const bad = [
  ["simulate", {}, "no model was named"],
  ["simulate", { flags: { "--model": 5 } }, "--model is 5"],
  ["simulate", { flags: { ...good, "--model": "gpt3-175" } }, "did you mean"],
  ["simulate", { flags: { "--modle": "x" } }, "--modle is no flag"],
  ["simulate", { flags: { ...good, "--tp": "eight" } }, "--tp"],
  ["simulate", { flags: { ...good, "--tp": "7" } }, "7"],
  ["simulate", { flags: { ...good, "--tp": "-8" } }, "-8"],
  ["simulate", { flags: { ...good, "--nodes": "99999999999999999999" } }, "99999999999999999999"],
  ["simulate", { flags: { ...good, "--power-limit": "nan W" } }, "--power-limit"],
  ["simulate", { flags: { ...good, "--fault": "gpu=3@1s" } }, "--fault"],
  ["simulate", { flags: { ...good, "--fault": "gpu=3,power=0.5@10s" } }, "--duration"],
  ["simulate", { flags: "none" }, "no object"],
  ["simulate", { beginning: "model = " }, ""],
  ["plan", { flags: { ...good, "--task": "decode" } }, "works for training only"],
  ["plan", { flags: good, plan: { "--fix": "tp=3" } }, ""],
  ["compare", { sides: [{ flags: good }] }, "two jobs"],
  ["curve", { positions: ["1", "2"], values: [1] }, "as many values"],
  ["read", { file: "/dropped/broken.json", flags: good }, "broken.json"],
  ["read", { file: "/dropped/deep.json", flags: good }, "deep.json"],
  ["read", { file: "/dropped/binary.toml", flags: good }, "binary.toml"],
  ["read", { file: "/dropped/loop.sh", flags: good }, "loop.sh"],
  ["read", { file: "/dropped/none.toml", flags: good }, "none.toml"],
  ["gpu", { flags: good, gpu: 99 }, "no series"],
  ["nothing", {}, "no call"],
];
let failed = 0;
for (const [name, request, part] of bad) {
  const { error } = core.call(name, request);
  if (typeof error === "string" && error.length > 10 && error.includes(part)) continue;
  failed += 1;
  console.error(`${name} ${JSON.stringify(request)}: ${error ?? "was answered"} (expected a sentence with "${part}")`);
}
if (!core.call("step", { flags: good }).step_time_s) {
  failed += 1;
  console.error("after these, the core does not answer any more");
}
console.log(`${bad.length} requests, ${bad.length - failed} ended in a sentence`);
process.exit(failed > 0 ? 1 : 0);
