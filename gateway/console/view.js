// Draws one Turn from its picture. Steps that a person has opened or closed stay so.

import { element, python } from "./dom.js";
import { markdown } from "./markdown.js";

const ORDER = ["iterations", "llm_calls", "child_calls", "tool_calls", "output_bytes", "seconds"];

function meters(budget) {
  return element("div", { class: "meters" }, ...ORDER.filter((name) => budget[name]).map((name) => {
    const { used, limit } = budget[name];
    const high = limit * 0.75;
    return element("label", {}, name.replace("_", " "),
      element("meter", { min: 0, max: limit || 1, value: used, low: high, high: limit, optimum: 0 }),
      `${used.toLocaleString()} / ${limit.toLocaleString()}`);
  }));
}

function stepView(step, open) {
  const seconds = step.done ? ` · ${(step.ms / 1000).toFixed(1)} s` : " · running";
  const details = element("details", { class: "step", open, "data-step": step.number },
    element("summary", {}, `step ${step.number}${step.of ? ` of ${step.of}` : ""}${seconds}`));
  if (step.reasoning) details.append(element("p", { class: "reasoning" }, step.reasoning));
  if (step.code) details.append(element("pre", { class: "code" }, ...python(step.code)));
  if (step.output) details.append(element("pre", { class: step.error ? "error" : "" }, step.output));
  return details;
}

function childView(child) {
  const state = child.status === "running"
    ? `step ${child.iterations || 1}: ${child.doing}`
    : `${child.status.replace("_", " ")} · ${child.iterations} steps · ${child.evidence.length} pieces of evidence`;
  return element("article", { class: `child ${child.status}` },
    element("strong", {}, `child ${child.index + 1}`), element("p", {}, child.task),
    element("small", {}, child.status !== "running" && child.doing ? `${state} · ${child.doing}` : state));
}

function statusLine(picture) {
  const asking = [...new Set(picture.asking.values())].join(", ");
  if (!picture.end) return element("p", { class: "status running" }, asking ? `asking: ${asking}` : picture.phase);
  return element("p", { class: "status" }, `${picture.end.replace("_", " ")} in ${(picture.duration / 1000).toFixed(1)} s`);
}

function answerView(picture) {
  if (picture.answer) return element("div", { class: "answer" }, ...markdown(picture.answer));
  if (picture.end && picture.end !== "completed") {
    return element("div", { class: "answer bad" }, element("p", {}, picture.error || "ended without an answer"));
  }
  return "";
}

export function draw(root, picture) {
  const chosen = new Map([...root.querySelectorAll("details.step[data-touched]")].map((each) => [each.dataset.step, each.open]));
  const last = Math.max(0, ...picture.steps.keys());
  const steps = [...picture.steps.values()].map((step) => {
    const key = String(step.number);
    const view = stepView(step, chosen.has(key) ? chosen.get(key) : step.number === last && !picture.end);
    if (chosen.has(key)) view.dataset.touched = "";
    view.querySelector("summary").addEventListener("click", () => { view.dataset.touched = ""; });
    return view;
  });
  root.replaceChildren(
    element("div", { class: "question" }, picture.text), ...steps,
    picture.children.size ? element("div", { class: "children" }, ...[...picture.children.values()].map(childView)) : "",
    ...picture.notices.map((notice) => element("p", { class: "status" }, notice)),
    meters(picture.budget), statusLine(picture), answerView(picture),
  );
}
