// A Turn as its events tell it: a plain object that the view draws.

export function newPicture(text) {
  return {
    text, phase: "queued", steps: new Map(), children: new Map(), batch: 0, budget: {}, asking: new Map(), notices: [],
    answer: "", end: "", error: "", duration: 0, turn: "",
  };
}

const step = (picture, number) => {
  if (!picture.steps.has(number)) {
    picture.steps.set(number, { number, of: 0, reasoning: "", code: "", output: "", error: false, ms: 0, done: false });
  }
  return picture.steps.get(number);
};

const child = (picture, event) => {
  const key = `${picture.batch}.${event.index}`;
  if (!picture.children.has(key)) {
    picture.children.set(key, { index: event.index, task: "", status: "running", doing: "starting", iterations: 0, evidence: [] });
  }
  return picture.children.get(key);
};

const handlers = {
  "turn.started": (picture, event) => { picture.budget = event.budget; },
  "turn.phase": (picture, event) => { picture.phase = `${(event.phase || "").toLowerCase()} ${event.detail}`.trim(); },
  "sandbox.ready": (picture, event) => {
    const kind = event.resident ? "resident" : "fresh";
    picture.notices.push(`sandbox: ${kind}, ${event.isolation}, ${event.duration_ms} ms ${event.rotation_reason}`);
  },
  "iteration.started": (picture, event) => { step(picture, event.iteration).of = event.of; },
  "iteration.completed": (picture, event) => Object.assign(step(picture, event.iteration), { ms: event.duration_ms, done: true }),
  reasoning: (picture, event) => { step(picture, event.iteration).reasoning = event.text; },
  code: (picture, event) => { step(picture, event.iteration).code = event.text; },
  output: (picture, event) => {
    const current = step(picture, event.iteration);
    current.output = event.final ? event.text : current.output + event.text;
    current.error = event.error;
  },
  "lm.called": (picture, event) => picture.asking.set(event.call_id, `${event.role} ${event.purpose}`),
  "lm.completed": (picture, event) => picture.asking.delete(event.call_id),
  "child.started": (picture, event) => {
    if ([...picture.children.values()].every((each) => each.status !== "running")) picture.batch += 1;
    child(picture, event).task = event.task;
  },
  "child.progress": (picture, event) => Object.assign(child(picture, event), { iterations: event.iteration, doing: event.detail }),
  "child.completed": (picture, event) => Object.assign(child(picture, event), {
    status: event.status, iterations: event.iterations, evidence: event.evidence, doing: event.error, cleanup: event.cleanup,
  }),
  "budget.updated": (picture, event) => { picture.budget[event.dimension] = { used: event.used, limit: event.limit }; },
  "budget.exhausted": (picture, event) => picture.notices.push(`budget of ${event.dimension} is spent`),
  warning: (picture, event) => picture.notices.push(event.message),
  answer: (picture, event) => { picture.answer = event.text; },
};

export function take(picture, event) {
  picture.turn = event.turn;
  handlers[event.type]?.(picture, event);
  if (["turn.completed", "turn.failed", "turn.cancelled", "turn.timed_out"].includes(event.type)) {
    picture.end = event.type.slice(5);
    picture.error = event.error?.message || "";
    picture.duration = event.duration_ms;
    picture.budget = event.budget;
  }
}
