// A Turn's budget, a bar a dimension.

import { element } from "./dom.js";

const NAMES = { iterations: "steps", llm_calls: "model queries", child_calls: "children", tool_calls: "tool calls",
  output_bytes: "output bytes", seconds: "seconds" };

const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export function meters(budget) {
  const known = Object.keys(NAMES).filter((name) => budget[name]);
  return element("ul", { class: "meters", "aria-label": "Budget" }, ...known.map((name) => {
    const { used, limit } = budget[name];
    return element("li", { class: used >= limit * 0.8 ? "high" : "" },
      element("span", {}, NAMES[name]), element("span", {}, `${short.format(used)} / ${short.format(limit)}`),
      element("progress", { max: limit || 1, value: used, "aria-label": `${NAMES[name]}: ${used} of ${limit}` }));
  }));
}
