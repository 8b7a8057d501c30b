// SPDX-License-Identifier: Apache-2.0
// What a report page does beyond being read: choose, sort, filter, save, point at, plot.
import { addChooser } from "./chooser";
import { addCsvButtons } from "./csv";
import { addHeatTips } from "./heat";
import { drawPlots } from "./plots";
import { addFilter, addSorting } from "./tables";

addChooser();
addCsvButtons();
addSorting();
addFilter();
addHeatTips();
drawPlots();
document.documentElement.dataset.ready = "yes"; // tests wait for this
