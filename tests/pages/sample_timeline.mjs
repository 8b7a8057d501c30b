// SPDX-License-Identifier: Apache-2.0
// Made-up timelines for the pages' tests and measurements: sampleTimeline({ranks, microbatches, layers, expanded}).

export function encode(values) {
  const bytes = [];
  let before = 0;
  for (const value of values) {
    const difference = value - before;
    before = value;
    let zigzag = difference >= 0 ? 2 * difference : -2 * difference - 1;
    for (; zigzag >= 128; zigzag = Math.floor(zigzag / 128)) bytes.push((zigzag % 128) | 0x80);
    bytes.push(zigzag);
  }
  return Buffer.from(bytes).toString("base64");
}

const types = [
  { name: "norm", kind: "memory", op_class: "norm" }, { name: "qkv", kind: "compute", op_class: "gemm" },
  { name: "attention", kind: "compute", op_class: "attention" },
  { name: "tp_all_reduce", kind: "communication", collective: "all_reduce", group: "tensor" },
  { name: "mlp_up", kind: "compute", op_class: "gemm" },
  { name: "pipeline_receive", kind: "communication", collective: "send_recv", group: "pipeline" },
  { name: "optimizer", kind: "memory", op_class: "optimizer" },
  { name: "gradient_reduce_scatter", kind: "communication", collective: "reduce_scatter", group: "data" },
  { name: "launch", kind: "host" },
];
// type, ns, wait, bytes; a tensor-parallel layer in miniature
const layer = [[0, 30e3, 0, 0], [1, 220e3, 0, 0], [2, 340e3, 0, 0], [1, 140e3, 0, 0], [3, 260e3, 40e3, 5e7], [0, 30e3, 0, 0], [4, 600e3, 0, 0], [3, 280e3, 60e3, 5e7]];

function pieceOf(scale) {
  let at = 0;
  return layer.map(([type, length, wait, bytes]) => {
    const span = { lane: 0, begin: at, length: Math.round(length * scale), type, wait: Math.round(wait * scale), bytes };
    at += span.length;
    return span;
  });
}

/** 1F1B over `stages` of the ranks; with `expanded` every span is written singly, as a profiler's trace has it. */
export function sampleTimeline({ ranks = 32, stages = 4, microbatches = 32, layers = 24, expanded = false }) {
  const forward = pieceOf(1);
  const backward = pieceOf(2);
  const lengthOf = (piece) => piece.reduce((sum, { length }) => sum + length, 0);
  const patterns = [["forward", forward], ["backward", backward]].map(([name, piece]) =>
    ({ name, pieces: [{ repeat: layers, length: lengthOf(piece), first_layer: 0, spans: piece.length }] }));
  const time = [layers * lengthOf(forward), layers * lengthOf(backward)];
  const spans = [];
  const instances = [];
  let end = 0;
  for (let rank = 0; rank < ranks; ++rank) {
    const stage = Math.floor((rank * stages) / ranks);
    const jitter = (rank * 7919) % 13;
    let at = stage * time[0] + jitter * 1e4;
    const play = (pattern, microbatch) => {
      if (expanded) {
        const piece = pattern === 0 ? forward : backward;
        for (let l = 0; l < layers; ++l) {
          for (const span of piece) spans.push({ ...span, rank, begin: at + l * patterns[pattern].pieces[0].length + span.begin, microbatch, layer: l });
        }
      } else {
        instances.push({ rank, begin: at, pattern, microbatch });
      }
      at += time[pattern];
    };
    const warm = Math.min(microbatches, stages - stage);
    for (let m = 0; m < warm; ++m) play(0, m);
    const first = (2 * stages - stage) * time[0] + (stages - stage - 1) * time[1];
    if (first > at) {
      spans.push({ rank, lane: 0, begin: at, length: first - at, type: 5, microbatch: 0, layer: -1, wait: Math.round(0.9 * (first - at)), bytes: 1e8 });
      at = first;
    }
    for (let m = 0; m < microbatches; ++m) {
      play(1, m);
      if (m + warm < microbatches) play(0, m + warm);
      spans.push({ rank, lane: 1, begin: at - 3e6, length: 2.5e6, type: 7, microbatch: m, layer: -1, wait: 0, bytes: 2e8 });
    }
    spans.push({ rank, lane: 0, begin: at, length: 40e6, type: 6, microbatch: -1, layer: -1, wait: 0, bytes: 0 });
    end = Math.max(end, at + 40e6);
  }
  spans.sort((a, b) => a.rank - b.rank || a.begin - b.begin);
  const columns = (entries, names) => Object.fromEntries([["count", entries.length], ...names.map((name) => [name, encode(entries.map((entry) => entry[name]))])]);
  return {
    version: 1, begin: 50e6, length: end, types,
    ranks: Array.from({ length: ranks }, (_, rank) => ({ rank, stage: Math.floor((rank * stages) / ranks), lanes: ["compute", "communication"] })),
    spans: columns(spans, ["rank", "lane", "begin", "length", "type", "microbatch", "layer", "wait", "bytes"]),
    ...(expanded ? {} : {
      patterns,
      piece_spans: columns([...forward, ...backward], ["lane", "begin", "length", "type", "wait", "bytes"]),
      instances: columns(instances, ["rank", "begin", "pattern", "microbatch"]),
    }),
  };
}

/** Curves that go with it: a band of power, temperature and clock, longer than the timeline. */
export function samplePlots(seconds, points = 600) {
  const times = Array.from({ length: points }, (_, i) => (i * seconds) / points);
  const curve = (name, style, middle, swing) => ({ name, style, values: times.map((t, i) => middle + swing * Math.sin(t * 3) + (i % 7)) });
  return [["power (W)", 560, 90], ["die (°C)", 62, 4], ["SM clock (MHz)", 1840, 60], ["throttled (%)", 20, 15]].map(([unit, middle, swing]) => ({
    unit, times,
    curves: [curve("highest GPU", "high", middle * 1.1, swing), curve("lowest GPU", "low", middle * 0.9, swing), curve("mean", "mean", middle, swing)],
  }));
}

/** The page of a run with this timeline in place of its own. */
export function withTimeline(html, timeline, plots) {
  const figure = '<section aria-labelledby="timeline-title"><h2 id="timeline-title">Timeline</h2><figure id="timeline-figure" class="wide">' +
    '<figcaption>Every rank over one step</figcaption><div class="drawing"><div id="timeline" class="timeline"></div></div></figure></section>';
  const data = JSON.stringify({ timeline, plots }).replaceAll("<", "\\u003c");
  return html
    .replace(/(<script type="application\/json" id="data">)[\s\S]*?(<\/script>)/, (_, open, close) => open + data + close)
    .replace(/<main>[\s\S]*<\/main>/, () => `<main><header><p class="kicker">Triplepoint run</p><h1>A sample</h1></header>${figure}</main>`);
}
