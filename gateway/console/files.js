// The files that go with the next question: chosen, dropped or pasted.

import { element } from "./dom.js";

const files = [];
const find = (id) => document.getElementById(id);

function show() {
  find("attachments").replaceChildren(...files.map((file) => {
    const remove = element("button", { type: "button", "aria-label": `Remove ${file.name}` }, "×");
    remove.addEventListener("click", () => { files.splice(files.indexOf(file), 1); show(); });
    return element("li", {}, element("span", {}, file.name), remove);
  }));
}

function add(list) {
  files.push(...list);
  show();
}

export const chosenFiles = () => [...files];

export function clearFiles() {
  files.length = 0;
  show();
}

export function listenForFiles() {
  const form = find("ask");
  find("files").addEventListener("change", (event) => { add(event.target.files); event.target.value = ""; });
  find("question").addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) { event.preventDefault(); add(event.clipboardData.files); }
  });
  document.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("dragging"); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) form.classList.remove("dragging"); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("dragging");
    add(event.dataTransfer.files);
  });
}
