// SPDX-License-Identifier: Apache-2.0
import uPlot from "uplot";

import { type Curve, pageData, type Plot, styleValue as colour } from "./page_data";

const singles = ["--blue", "--orange", "--green", "--vermilion", "--sky", "--purple", "--yellow", "--grey"];

function seriesOf(curve: Curve, index: number): uPlot.Series {
  const base: uPlot.Series = {
    label: curve.name,
    spanGaps: false,
    points: { show: false },
    value: (_, value) => (value == null ? "–" : value.toPrecision(4)),
  };
  if (curve.style === "mean") return { ...base, stroke: colour("--blue"), width: 2 };
  if (curve.style === "high") return { ...base, stroke: colour("--vermilion"), width: 1 };
  if (curve.style === "low") return { ...base, stroke: colour("--sky"), width: 1 };
  return { ...base, stroke: colour(singles[index % singles.length] ?? "--blue"), width: 1.3 };
}

function axis(label: string): uPlot.Axis {
  const grid = { stroke: colour("--rule"), width: 1 };
  return { label, stroke: colour("--soft"), grid, ticks: grid, labelSize: 20, size: 48, font: "11px system-ui", labelFont: "11px system-ui" };
}

/** A little room above and below; a flat curve lies in the middle instead of on a line from zero. */
function rangeOf(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low == null || high == null) return [0, 1];
  const room = Math.max(0.08 * (high - low), 0.01 * Math.abs(high), 1e-6);
  return [low - room, high + room];
}

function draw(plot: Plot, cursor: uPlot.Cursor): uPlot | null {
  const target = document.getElementById(plot.target);
  if (!target) return null;
  const high = plot.curves.findIndex((curve) => curve.style === "high") + 1;
  const low = plot.curves.findIndex((curve) => curve.style === "low") + 1;
  const options: uPlot.Options = {
    width: Math.max(260, target.clientWidth),
    height: 230,
    cursor,
    scales: { x: { time: false }, y: { range: rangeOf } },
    axes: [{ ...axis("time (s)"), size: 34 }, axis(plot.unit)],
    series: [{ label: "time (s)", value: (_, value) => (value == null ? "–" : value.toPrecision(5)) }, ...plot.curves.map(seriesOf)],
    bands: high > 0 && low > 0 ? [{ series: [high, low], fill: colour("--rule") + "66" }] : [],
  };
  return new uPlot(options, [plot.times, ...plot.curves.map((curve) => curve.values)], target);
}

/** All series of the page, with one cursor: what one plot shows at a moment, the others show too. */
export function drawPlots(): void {
  const plots = pageData().plots ?? [];
  if (plots.length === 0) return;
  const cursor: uPlot.Cursor = { sync: { key: "run" }, drag: { x: true, y: false } };
  let drawn: uPlot[] = [];
  const drawAll = (): void => {
    for (const old of drawn) old.destroy();
    drawn = plots.map((plot) => draw(plot, cursor)).filter((plot): plot is uPlot => plot !== null);
  };
  drawAll();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    drawAll();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
