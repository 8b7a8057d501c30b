// SPDX-License-Identifier: Apache-2.0
import type { Flags } from "./explorer_state";

export interface Start {
  title: string;
  about: string;
  flags: Flags;
}

/** Where to begin: each shows something that one would not have guessed. */
export const gallery: Start[] = [
  {
    title: "GPT-3 on 32 H200",
    about: "The paper's job: 175 billion parameters over four air-cooled nodes, where the GPUs at the rear run hottest.",
    flags: { "--model": "gpt3-175b", "--cluster": "hgx-h200", "--nodes": "4", "--tp": "8", "--pp": "4", "--tokens": "300B" },
  },
  {
    title: "Llama 3 70B on 64 H100",
    about: "Out of memory as it stands: change what saves memory, or press \"Find the best plan\".",
    flags: { "--model": "llama3-70b", "--cluster": "hgx-h100", "--nodes": "8", "--tp": "8", "--pp": "4", "--gbs": "512" },
  },
  {
    title: "DeepSeek-V3 on GB300",
    about: "256 experts of which each token takes eight: the exchange between experts decides.",
    flags: { "--model": "deepseek-v3", "--cluster": "gb300-nvl72", "--nodes": "32", "--ep": "64", "--tp": "1", "--gbs": "1024", "--recompute": "full" },
  },
  {
    title: "A heat wave",
    about: "The same job with 40 °C at the inlet: which GPUs lose clocks, and what a step costs then.",
    flags: { "--model": "gpt3-175b", "--cluster": "hgx-h200", "--nodes": "4", "--tp": "8", "--pp": "4", "--ambient": "40 C" },
  },
  {
    title: "A failed fan",
    about: "Node 1 moves half its air: how hot its rear GPUs get, and what that costs all 32.",
    flags: { "--model": "gpt3-175b", "--cluster": "hgx-h200", "--nodes": "4", "--tp": "8", "--pp": "4", "--fault": ["node=1,fan=0.5"] },
  },
  {
    title: "A hall of 1.2 MW",
    about: "1,024 GPUs with 600 W each: what the limit costs in speed, and what it saves per token.",
    flags: { "--model": "gpt3-175b", "--cluster": "hgx-h100", "--nodes": "128", "--tp": "8", "--pp": "8", "--gbs": "1024", "--power-limit": "600 W" },
  },
  {
    title: "Air or liquid",
    about: "The same GPUs behind cold plates: pin this one, choose air, and read what differs.",
    flags: { "--model": "llama3-70b", "--cluster": "hgx-h200", "--nodes": "4", "--tp": "8", "--pp": "4", "--cooling": "liquid" },
  },
  {
    title: "Fine-tuning on eight GPUs",
    about: "LoRA of a 70-billion model on one node: what fits, and what limits it.",
    flags: { "--model": "llama3-70b", "--cluster": "hgx-h100", "--nodes": "1", "--tp": "8", "--lora-rank": "16", "--gbs": "32" },
  },
];
