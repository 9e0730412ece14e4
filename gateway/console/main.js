// The console: Sessions on the left, Turns live on the right.

import * as api from "./api.js";
import { element } from "./dom.js";
import { newPicture, take } from "./picture.js";
import { draw } from "./view.js";

const find = (id) => document.getElementById(id);
const state = { session: null, running: null, files: [], stops: [] };

function report(error) {
  find("problem").textContent = error ? error.message : "";
  find("problem").hidden = !error;
}

function setRunning(turn) {
  state.running = turn;
  find("cancel").hidden = !turn;
  find("send").disabled = Boolean(turn);
}

async function showSessions() {
  const { sessions } = await api.listSessions();
  find("sessions").replaceChildren(...sessions.map((session) => {
    const button = element("button", { type: "button", "aria-current": String(session.id === state.session) },
      session.title || session.id);
    button.addEventListener("click", () => open(session.id).catch(report));
    return element("li", {}, button);
  }));
}

async function open(session) {
  state.stops.splice(0).forEach((stop) => stop());
  state.session = session;
  setRunning(null);
  find("turns").replaceChildren();
  if (session) {
    const { turns } = await api.listTurns(session);
    turns.forEach(follow);
  }
  await showSessions();
}

function follow(turn) {
  const root = element("article", { class: "turn" });
  find("turns").append(root);
  const picture = newPicture(turn.text);
  const live = !["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"].includes(turn.state);
  if (live) setRunning(turn.id);
  let scheduled = false;
  const redraw = () => {
    scheduled = false;
    const list = find("turns");
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    draw(root, picture);
    if (atEnd) list.scrollTop = list.scrollHeight;
  };
  const onEvent = (event) => {
    take(picture, event);
    if (picture.end && state.running === turn.id) setRunning(null);
    if (!scheduled) { scheduled = true; requestAnimationFrame(redraw); }
  };
  draw(root, picture);
  // Browsers allow few open connections to one host, so only a running Turn keeps one.
  if (live) state.stops.push(api.watch(turn.id, onEvent));
  else api.storedEvents(turn.id).then((events) => events.forEach(onEvent)).catch(report);
}

function showFiles() {
  find("attachments").replaceChildren(...state.files.map((file) => element("li", {}, file.name)));
}

async function ask(text) {
  report(null);
  find("send").disabled = true;
  try {
    if (!state.session) state.session = (await api.createSession(text.trim().slice(0, 80))).id;
    const attachments = [];
    for (const file of state.files) attachments.push((await api.upload(file)).id);
    const turn = await api.createTurn(state.session, text, attachments);
    state.files = [];
    showFiles();
    find("question").value = "";
    follow(turn);
    await showSessions();
  } catch (error) {
    report(error);
  }
  find("send").disabled = Boolean(state.running);
}

async function checkHealth() {
  const ok = await api.ready();
  find("health").textContent = ok ? "ready" : "not ready";
  find("health").className = `badge ${ok ? "good" : "bad"}`;
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("question").value;
  if (text.trim() && !state.running) ask(text);
});
find("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    find("ask").requestSubmit();
  }
});
find("files").addEventListener("change", (event) => {
  state.files.push(...event.target.files);
  event.target.value = "";
  showFiles();
});
find("cancel").addEventListener("click", () => api.cancelTurn(state.running).catch(report));
find("new-session").addEventListener("click", () => open(null).catch(report));
checkHealth();
setInterval(checkHealth, 10000);
open(null).catch(report);
