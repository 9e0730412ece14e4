// A Turn as its events tell it: a plain object that the view draws. A step's `revision` grows with each change.

export function newPicture(text) {
  return {
    text, phase: "waiting to begin", steps: new Map(), budget: {}, asking: new Map(), sandbox: "", notices: [],
    answer: "", termination: "", end: "", error: null, duration: 0, usage: null, lost: false,
  };
}

const ENDS = ["turn.completed", "turn.failed", "turn.cancelled", "turn.timed_out"];

function step(picture, number) {
  if (!picture.steps.has(number)) {
    picture.steps.set(number, {
      number, of: 0, reasoning: "", code: "", output: "", error: false, length: 0, truncated: false, ms: 0, done: false,
      tools: new Map(), children: new Map(), revision: 0,
    });
  }
  const found = picture.steps.get(number);
  found.revision += 1;
  return found;
}

// Events of tools and children name no step: they belong to the one that runs.
const current = (picture) => step(picture, Math.max(1, ...picture.steps.keys()));

function child(picture, event) {
  const { children } = current(picture);
  const key = event.child_id || `not started ${event.index}`;
  if (!children.has(key)) {
    children.set(key, { key, index: event.index, task: "", status: "running", doing: "starting", iterations: 0,
      evidence: [], gaps: [], ms: 0 });
  }
  return children.get(key);
}

const handlers = {
  "turn.started": (picture, event) => { picture.budget = event.budget; },
  "turn.phase": (picture, event) => { picture.phase = event.detail || (event.phase || "").toLowerCase(); },
  "sandbox.ready": (picture, event) => {
    const rotated = event.rotation_reason ? `, replaced: ${event.rotation_reason}` : "";
    const kind = event.resident ? "the Session's interpreter" : "a fresh interpreter";
    picture.sandbox = `${kind} (${event.isolation}${rotated}) after ${event.duration_ms} ms`;
  },
  "iteration.started": (picture, event) => { step(picture, event.iteration).of = event.of; },
  "iteration.completed": (picture, event) => Object.assign(step(picture, event.iteration), { ms: event.duration_ms, done: true }),
  reasoning: (picture, event) => { step(picture, event.iteration).reasoning = event.text; },
  code: (picture, event) => { step(picture, event.iteration).code = event.text; },
  output: (picture, event) => {
    const found = step(picture, event.iteration);
    if (event.final) {
      Object.assign(found, { output: event.text, error: event.error, truncated: event.truncated, length: event.full_length });
    } else {
      found.output += event.text;
    }
  },
  "lm.called": (picture, event) => picture.asking.set(event.call_id, `${event.role} model, ${event.purpose}`),
  "lm.completed": (picture, event) => picture.asking.delete(event.call_id),
  "tool.called": (picture, event) => {
    current(picture).tools.set(event.call_id, { tool: event.tool, input: event.input, error: "", ms: null });
  },
  "tool.completed": (picture, event) => {
    const found = current(picture).tools.get(event.call_id);
    if (found) Object.assign(found, { error: event.error, ms: event.duration_ms });
  },
  "child.started": (picture, event) => { child(picture, event).task = event.task; },
  "child.progress": (picture, event) => Object.assign(child(picture, event), { iterations: event.iteration, doing: event.detail }),
  "child.completed": (picture, event) => Object.assign(child(picture, event), {
    status: event.status, iterations: event.iterations, evidence: event.evidence, gaps: event.gaps, doing: event.error,
    cleanup: event.cleanup, ms: event.duration_ms,
  }),
  "skill.loaded": (picture, event) => picture.notices.push({ text: `skill ${event.id} ${event.version} loaded` }),
  "artifact.created": (picture, event) => picture.notices.push({ text: `artifact: ${event.title} (${event.kind})` }),
  "memory.updated": (picture, event) => picture.notices.push({ text: `memory ${event.change}` }),
  warning: (picture, event) => picture.notices.push({ text: event.message, warn: true }),
  "budget.updated": (picture, event) => { picture.budget[event.dimension] = { used: event.used, limit: event.limit }; },
  "budget.exhausted": (picture, event) => picture.notices.push({ text: `the budget of ${event.dimension} is spent`, warn: true }),
  answer: (picture, event) => { picture.answer = event.text; picture.termination = event.termination; },
};

export function take(picture, event) {
  handlers[event.type]?.(picture, event);
  if (ENDS.includes(event.type)) {
    Object.assign(picture, {
      end: event.type.slice(5), error: event.error, duration: event.duration_ms, budget: event.budget, usage: event.usage,
    });
    picture.asking.clear();
    for (const each of picture.steps.values()) each.revision += 1;
  }
}
