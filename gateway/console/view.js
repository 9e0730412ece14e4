// Draws one Turn from its picture. Steps that haven't changed keep their elements, and so selections and scrolling;
// steps and children that a person has opened or closed stay so.

import { childrenView } from "./children.js";
import { copyButton, counted, element, seconds } from "./dom.js";
import { python } from "./highlight.js";
import { markdown } from "./markdown.js";
import { meters } from "./meters.js";

const HIDDEN_TOOLS = new Set(["rlm_query", "rlm_query_batched"]);

const block = (title, pre, text) => element("div", { class: "block" }, element("small", {}, title), pre, copyButton(text));

function toolsView(tools) {
  const shown = [...tools.values()].filter(({ tool }) => !HIDDEN_TOOLS.has(tool));
  if (!shown.length) return "";
  return element("ul", { class: "tools" }, ...shown.map(({ tool, input, error, ms }) => element("li", {},
    element("code", {}, `${tool}(${input.length > 200 ? `${input.slice(0, 200)}…` : input})`),
    error ? element("span", { class: "bad" }, ` ${error}`) : ms === null ? " …" : ` ${ms} ms`)));
}

function outputTitle(step) {
  const cut = step.truncated ? `, cut from ${step.length.toLocaleString()} bytes` : "";
  return step.error ? `output, ended with an error${cut}` : `output${cut}`;
}

function stepView(step, ended) {
  const meta = step.done ? seconds(step.ms) : ended ? "" : element("span", {}, element("span", { class: "spark" }), "running");
  const inside = element("div", { class: "inside" });
  if (step.reasoning) inside.append(element("p", { class: "reasoning" }, step.reasoning));
  if (step.code) inside.append(block("code", element("pre", {}, ...python(step.code)), step.code));
  if (step.children.size) inside.append(childrenView(step.children));
  inside.append(toolsView(step.tools));
  if (step.output) {
    inside.append(block(outputTitle(step), element("pre", { class: step.error ? "error" : "" }, step.output), step.output));
  }
  const children = step.children.size ? ` · ${counted(step.children.size, "child", "children")}` : "";
  return element("details", { class: `step ${step.error ? "failed" : ""}`, "data-key": step.number },
    element("summary", {}, element("span", { class: "number" }, `Step ${step.number}`),
      element("span", { class: "preview" }, step.reasoning.split("\n")[0]),
      element("span", { class: "meta" }, meta, step.error ? " · error" : "", children)), inside);
}

function statusView(picture) {
  if (!picture.end) {
    const asking = [...new Set(picture.asking.values())].join("; ");
    const doing = picture.lost ? "connecting again" : asking ? `asking the ${asking}` : picture.phase;
    return element("p", { class: "note" }, element("span", { class: "spark" }), doing);
  }
  const models = picture.usage?.models || [];
  const total = (name) => models.reduce((sum, model) => sum + model[name], 0).toLocaleString();
  const facts = [
    `${picture.end.replace("_", " ")} in ${seconds(picture.duration)}`,
    models.length ? `${counted(models.reduce((sum, model) => sum + model.calls, 0), "model call")}` : "",
    models.length ? `${total("prompt_tokens")} + ${total("completion_tokens")} tokens` : "",
    picture.termination === "extract" ? "taken from the steps so far" : "",
  ];
  return element("p", { class: "note" }, facts.filter(Boolean).join(" · "));
}

function answerView(picture) {
  if (picture.answer) return element("div", { class: "answer" }, ...markdown(picture.answer), copyButton(picture.answer));
  if (!picture.end || picture.end === "completed") return "";
  const { reason, message } = picture.error || { reason: "", message: "It ended without an answer." };
  return element("div", { class: "answer bad" }, element("p", {}, message), element("p", { class: "note" }, reason));
}

// Opens what a person has opened, and remembers what they open from here on.
function keepOpen(details, chosen, key, otherwise) {
  details.open = chosen.get(key) ?? otherwise;
  details.firstElementChild.addEventListener("click", () => chosen.set(key, !details.open));
}

export class TurnView {
  constructor(root, picture) {
    this.root = root;
    this.picture = picture;
    this.drawn = new Map();
    this.chosen = new Map();
    this.steps = element("div");
    this.tail = element("div");
    root.append(element("div", { class: "question" }, picture.text), this.steps, this.tail);
  }

  draw() {
    const { picture } = this;
    const last = Math.max(0, ...picture.steps.keys());
    for (const step of picture.steps.values()) this.#drawStep(step, step.number === last && !picture.end);
    this.tail.replaceChildren(
      picture.sandbox ? element("p", { class: "note" }, picture.sandbox) : "",
      ...picture.notices.map(({ text, warn }) => element("p", { class: `note ${warn ? "warn" : ""}` }, text)),
      meters(picture.budget), statusView(picture), answerView(picture));
  }

  #drawStep(step, open) {
    const drawn = this.drawn.get(step.number);
    if (drawn?.revision === step.revision && drawn.open === open) return;
    const node = stepView(step, Boolean(this.picture.end));
    keepOpen(node, this.chosen, `${step.number}`, open);
    for (const each of node.querySelectorAll(".child")) {
      keepOpen(each, this.chosen, `${step.number} ${each.dataset.key}`, false);
    }
    if (drawn) drawn.node.replaceWith(node);
    else this.steps.append(node);
    this.drawn.set(step.number, { revision: step.revision, open, node });
  }
}
