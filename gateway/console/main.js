// The console: Sessions on the left, Turns live on the right.

import * as api from "./api.js";
import { element } from "./dom.js";
import { chosenFiles, clearFiles, listenForFiles } from "./files.js";
import { newPicture, take } from "./picture.js";
import { showSessions } from "./sessions.js";
import { TurnView } from "./view.js";

const find = (id) => document.getElementById(id);
const state = { session: null, running: null, busy: false, stops: [], opened: 0 };
const ENDED = ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"];
const NEAR_END = 100;

function report(error) {
  find("problem").textContent = error ? error.message : "";
  find("problem").hidden = !error;
}

function setRunning(turn) {
  state.running = turn;
  find("cancel").hidden = !turn;
  find("send").disabled = Boolean(turn) || state.busy;
}

function setBusy(label) {
  state.busy = Boolean(label);
  find("send").textContent = label || "Ask";
  setRunning(state.running);
}

const listSessions = () => showSessions(state.session, { open, report });

function welcome() {
  return element("div", { class: "welcome" },
    element("img", { src: "/console/icon.svg", alt: "", width: 44, height: 44 }),
    element("h2", {}, "Ask about your documents"),
    element("p", {}, "Attach files and ask. Every step of the answer shows here while it is made: the code, what it prints, and the children that read side by side."));
}

async function open(session) {
  state.stops.splice(0).forEach((stop) => stop());
  const opened = (state.opened += 1);
  state.session = session;
  history.replaceState(null, "", session ? `#${session}` : location.pathname);
  setRunning(null);
  report(null);
  find("turns").replaceChildren(...(session ? [] : [welcome()]));
  try {
    if (session) for await (const turn of api.listTurns(session)) if (opened === state.opened) follow(turn);
    await listSessions();
  } catch (error) {
    if (error.code === "SESSION_NOT_FOUND") await open(null);
    else report(error);
  }
}

function atEnd() {
  const list = find("turns");
  return list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
}

// Shows a Turn: a running one live, an ended one from what is stored.
function follow(turn) {
  const root = element("article", { class: "turn", "aria-label": "Turn" });
  const list = find("turns");
  list.append(root);
  const picture = newPicture(turn.text);
  const view = new TurnView(root, picture);
  let scheduled = false;
  const redraw = () => {
    scheduled = false;
    const follows = atEnd();
    view.draw();
    if (follows) list.scrollTop = list.scrollHeight;
  };
  const schedule = () => { if (!scheduled) { scheduled = true; requestAnimationFrame(redraw); } };
  view.draw();
  list.scrollTop = list.scrollHeight;
  // Browsers allow few open connections to one host, so only a running Turn keeps one.
  if (ENDED.includes(turn.state)) {
    api.storedEvents(turn.id).then((events) => { events.forEach((event) => take(picture, event)); redraw(); }).catch(report);
    return;
  }
  setRunning(turn.id);
  const onEvent = (event) => {
    take(picture, event);
    announce(event);
    schedule();
    if (picture.end) finish(turn.id, root, atEnd(), redraw);
  };
  const setLost = (lost) => { picture.lost = lost; schedule(); };
  const onLost = (refused) => {
    setLost(true);
    if (refused) api.getTurn(turn.id).then(() => setRunning(null), report);
  };
  state.stops.push(api.watch(turn.id, { onEvent, onOpen: () => setLost(false), onLost }));
}

function finish(turn, root, follows, redraw) {
  if (state.running === turn) setRunning(null);
  redraw();
  // An answer is read from its beginning.
  if (follows) root.querySelector(".answer")?.scrollIntoView({ block: "start" });
  listSessions().catch(report);
}

function announce(event) {
  const said = { "iteration.started": `Step ${event.iteration}`, answer: "The answer is here", "turn.failed": "The Turn failed",
    "turn.cancelled": "The Turn was cancelled", "turn.timed_out": "The Turn ran out of time" }[event.type];
  if (said) find("announcement").textContent = said;
}

async function ask(text) {
  report(null);
  try {
    setBusy("Sending…");
    if (!state.session) {
      find("turns").replaceChildren();
      state.session = (await api.createSession(text.trim().slice(0, 80))).id;
      history.replaceState(null, "", `#${state.session}`);
    }
    const attachments = [];
    const files = chosenFiles();
    for (const file of files) {
      setBusy(`Uploading ${attachments.length + 1} of ${files.length}…`);
      attachments.push((await api.upload(file)).id);
    }
    follow(await api.createTurn(state.session, text, attachments));
    clearFiles();
    find("question").value = "";
    await listSessions();
  } catch (error) {
    report(error);
  } finally {
    setBusy("");
  }
}

const cancel = () => state.running && api.cancelTurn(state.running).catch(report);

async function checkHealth() {
  const ok = await api.ready();
  find("health").textContent = ok ? "ready" : "not ready";
  find("health").className = `badge ${ok ? "good" : "bad"}`;
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("question").value;
  if (text.trim() && !state.running && !state.busy) ask(text);
});
find("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    find("ask").requestSubmit();
  } else if (event.key === "Escape") {
    cancel();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("textarea, input")) return;
  event.preventDefault();
  find("question").focus();
});
find("cancel").addEventListener("click", cancel);
find("new-session").addEventListener("click", () => { open(null); find("question").focus(); });
window.addEventListener("hashchange", () => open(location.hash.slice(1) || null));
listenForFiles();
checkHealth();
setInterval(checkHealth, 10_000);
open(location.hash.slice(1) || null);
