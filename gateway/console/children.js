// Children of a step, side by side in their order.

import { counted, element, seconds } from "./dom.js";

// What all tasks of a batch begin with says nothing about one of them.
function common(tasks) {
  let [shared = ""] = tasks;
  for (const task of tasks) while (!task.startsWith(shared)) shared = shared.slice(0, -1);
  return tasks.length > 1 ? shared.slice(0, shared.search(/\S*$/)).length : 0;
}

function state(child) {
  if (child.status === "running") return `step ${child.iterations || 1} · ${child.doing}`;
  const found = child.evidence.length ? ` · ${counted(child.evidence.length, "quote")}` : "";
  const wrong = child.doing ? ` · ${child.doing}` : "";
  return `${child.status.replace("_", " ")} · ${counted(child.iterations, "step")} · ${seconds(child.ms)}${found}${wrong}`;
}

const lines = (title, items) => (items.length
  ? [element("p", {}, title), element("ul", {}, ...items.map((item) => element("li", {}, item)))] : []);

function childView(child, skipped) {
  const own = child.task.slice(skipped).trim();
  const sandbox = child.cleanup ? `its sandbox: ${child.cleanup}` : "";
  return element("details", { class: `child ${child.status}`, "data-key": child.key },
    element("summary", {},
      child.status === "running" ? element("span", { class: "spark" }) : "",
      element("strong", {}, `child ${child.index + 1}`),
      element("span", { class: "task" }, skipped && own ? `…${own}` : child.task),
      element("span", { class: "doing" }, state(child))),
    element("p", {}, child.task), ...lines("Evidence", child.evidence), ...lines("Not found", child.gaps),
    sandbox ? element("small", {}, sandbox) : "");
}

export function childrenView(children) {
  const sorted = [...children.values()].sort((one, other) => one.index - other.index);
  const skipped = common(sorted.map((child) => child.task).filter(Boolean));
  return element("div", { class: "children" }, ...sorted.map((child) => childView(child, skipped)));
}
