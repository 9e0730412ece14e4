// The REST interface as the console uses it. Failures are Problem errors that carry the problem document.

export class Problem extends Error {
  constructor(document) {
    const fields = (document.errors || []).map((error) => `${error.field}: ${error.message}`).join("; ");
    super(fields || document.detail || document.title || "the request failed");
    this.code = document.code;
    this.location = document.location;
  }
}

async function call(method, path, { body, headers = {} } = {}) {
  let response;
  try {
    response = await fetch(path, { method, body, headers });
  } catch {
    throw new Problem({ detail: "the gateway can't be reached", code: "UNREACHABLE" });
  }
  if (!response.ok) {
    const document = await response.json().catch(() => ({ detail: `HTTP ${response.status}` }));
    throw new Problem({ ...document, location: response.headers.get("Location") });
  }
  return response.status === 204 ? null : response.json();
}

const json = (value) => ({ body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

export const ready = () => fetch("/readyz").then((response) => response.ok, () => false);
export const listSessions = () => call("GET", "/v1/sessions?page_size=100");
export const createSession = (title) => call("POST", "/v1/sessions", json({ title }));
export const listTurns = (session) => call("GET", `/v1/sessions/${session}/turns?page_size=200`);
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

// Calls onEvent for every event of a Turn. EventSource reconnects with Last-Event-ID; the stream ends with the Turn.
export function watch(turn, onEvent) {
  const source = new EventSource(`/v1/turns/${turn}/events`);
  const types = [
    "turn.started", "turn.phase", "sandbox.ready", "iteration.started", "iteration.completed", "reasoning", "code",
    "output", "lm.called", "lm.completed", "child.started", "child.progress", "child.completed", "warning",
    "budget.updated", "budget.exhausted", "answer", "turn.completed", "turn.failed", "turn.cancelled", "turn.timed_out",
  ];
  const terminal = new Set(types.slice(-4));
  for (const type of types) {
    source.addEventListener(type, (message) => {
      if (terminal.has(type)) source.close();
      onEvent(JSON.parse(message.data));
    });
  }
  return () => source.close();
}
