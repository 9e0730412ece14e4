// The REST interface as the console uses it. Failures are Problem errors that carry the problem document.

export class Problem extends Error {
  constructor(document) {
    const fields = (document.errors || []).map((error) => `${error.field}: ${error.message}`).join("; ");
    super(fields || document.detail || document.title || "the request failed");
    this.code = document.code;
  }
}

async function call(method, path, { body, headers = {} } = {}) {
  let response;
  try {
    response = await fetch(path, { method, body, headers });
  } catch {
    throw new Problem({ detail: "the gateway can't be reached", code: "UNREACHABLE" });
  }
  if (!response.ok) throw new Problem(await response.json().catch(() => ({ detail: `HTTP ${response.status}` })));
  return response.status === 204 ? null : response.json();
}

async function* pages(path, items) {
  let token = "";
  do {
    const page = await call("GET", `${path}?page_size=200&page_token=${encodeURIComponent(token)}`);
    yield* page[items];
    token = page.next_page_token;
  } while (token);
}

const json = (value) => ({ body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

export const ready = () => fetch("/readyz").then((response) => response.ok, () => false);
export const listSessions = () => call("GET", "/v1/sessions?page_size=100");
export const createSession = (title) => call("POST", "/v1/sessions", json({ title }));
export const deleteSession = (session) => call("DELETE", `/v1/sessions/${session}`);
export const listTurns = (session) => pages(`/v1/sessions/${session}/turns`, "turns");
export const getTurn = (turn) => call("GET", `/v1/turns/${turn}`);
export const storedEvents = (turn) => call("GET", `/v1/turns/${turn}/events?stream=false`);
export const cancelTurn = (turn) => call("POST", `/v1/turns/${turn}:cancel`);

export function upload(file) {
  const headers = { "X-Filename": encodeURIComponent(file.name) };
  if (file.type) headers["Content-Type"] = file.type;
  return call("POST", "/v1/attachments", { body: file, headers });
}

export function createTurn(session, text, attachments) {
  const request = json({ text, attachments });
  request.headers["Idempotency-Key"] = crypto.randomUUID();
  return call("POST", `/v1/sessions/${session}/turns`, request);
}

const ENDS = ["turn.completed", "turn.failed", "turn.cancelled", "turn.timed_out"];
const TYPES = [
  "turn.started", "turn.phase", "sandbox.ready", "iteration.started", "iteration.completed", "reasoning", "code",
  "output", "lm.called", "lm.completed", "tool.called", "tool.completed", "child.started", "child.progress",
  "child.completed", "skill.loaded", "artifact.created", "memory.updated", "warning", "budget.updated",
  "budget.exhausted", "answer", ...ENDS,
];

// Calls onEvent for every event of a Turn, onOpen when the connection stands, and onLost when it is gone: EventSource
// reconnects by itself with Last-Event-ID, unless the gateway refuses. Returns what ends the watch.
export function watch(turn, { onEvent, onOpen, onLost }) {
  const source = new EventSource(`/v1/turns/${turn}/events`);
  for (const type of TYPES) {
    source.addEventListener(type, (message) => {
      if (ENDS.includes(type)) source.close();
      onEvent(JSON.parse(message.data));
    });
  }
  source.addEventListener("open", onOpen);
  source.addEventListener("error", () => onLost(source.readyState === EventSource.CLOSED));
  return () => source.close();
}
