// What a thread did before the page came: its kept events, and its step records where events are not kept.
//
// Events are deleted after some days, and runs of `langgraph dev` keep none; the record of a step always stays.

const SAME_STEP_MS = 2_000; // between a step's first event and its record's time: under load, milliseconds

/** All events of the thread in order, those made of records among them, with `prompt` at each run's start. */
export function pastEvents(view, steps, events) {
  const begun = events.filter((event) => event.type === "agent_turn_start");
  const kept = new Set(begun.map((event) => recordOf(event, steps)));
  const gone = steps.filter((step) => !kept.has(step));
  const last = new Set(steps.filter((_, place) => (steps[place + 1]?.number ?? 1) === 1));
  const past = merged(
    gone.flatMap((step) => eventsOf(step, view, last.has(step))),
    events,
  );
  return [...withPrompts(past, steps), ...endOf(view, past)];
}

/** Whether events tell of steps that left no record: one that was cut off or goes on, or those a person went back from. */
export const hasOrphans = (steps, events) =>
  events.some((event) => event.type === "agent_turn_start" && !recordOf(event, steps));

/** The events without those of steps that a person went back from; `moves` as the timeline tells them. */
export function withoutLeft(events, steps, moves) {
  if (!moves.length) return events;
  const moved = Math.max(...moves.map(({ at }) => Date.parse(at)));
  const stays = (event) => Date.parse(event.timestamp) > moved || recordOf(event, steps) !== undefined;
  let keeps = true;
  return events.filter((event, place) => {
    if (event.type === "agent_turn_start") keeps = stays(event);
    if (event.type === "agent_start") {
      const first = firstOfStep(events, place); // one that goes on with a step belongs to that step
      if (first?.type === "agent_turn_start") keeps = stays(first);
      else if (!first) keeps = Date.parse(event.timestamp) > moved;
    }
    return keeps;
  });
}

function firstOfStep(events, place) {
  for (let at = place + 1; at < events.length; at += 1) if (events[at].step > 0) return events[at];
  return undefined;
}

/** The record of the step that an event began: of those with its number the nearest in time. */
function recordOf(event, steps) {
  const away = (step) => Math.abs(Date.parse(event.timestamp) - Date.parse(step.started_at));
  const near = steps.filter((step) => step.number === event.step && away(step) < SAME_STEP_MS);
  return near.sort((one, other) => away(one) - away(other))[0];
}

/** Both lists by time; each is in order, and events of one instant keep it. */
function merged(made, events) {
  if (!made.length) return events;
  return [...made, ...events]
    .map((event, place) => ({ event, place, at: Date.parse(event.timestamp) }))
    .sort((one, other) => one.at - other.at || one.place - other.place)
    .map(({ event }) => event);
}

/** A run's last step that called nothing gave the answer. */
function eventsOf(step, view, isLast) {
  const at = { thread_id: view.thread_id, step: step.number, timestamp: step.started_at };
  const { model, input_tokens: input, output_tokens: output } = step;
  const { strategy, mode, workspace } = view;
  const made = step.number === 1 ? [{ ...at, type: "agent_start", model, strategy, mode, workspace }] : [];
  made.push({ ...at, type: "agent_turn_start" });
  if (step.thought) made.push({ ...at, type: "agent_reason", content: step.thought });
  step.calls.forEach((call, place) =>
    made.push(...eventsOfCall(call, { ...at, call_id: `${step.started_at} ${place}` })),
  );
  if (step.todos.length) made.push({ ...at, type: "agent_todos", tasks: step.todos });
  if (step.observation) made.push({ ...at, type: "agent_observe", content: step.observation });
  made.push({ ...at, type: "agent_usage", model, input_tokens: input, output_tokens: output, spent: step });
  if (isLast && step.thought && !step.calls.length)
    made.push({ ...at, type: "agent_answer", content: step.thought });
  return made;
}

function eventsOfCall(call, at) {
  const { tool, args, output, time_ms: time } = call;
  const begun = { ...at, type: "agent_tool_start", tool, args };
  if (call.success)
    return [begun, { ...at, type: "agent_tool_complete", tool, result: output, data: {}, time_ms: time }];
  return [begun, { ...at, type: "agent_tool_error", tool, message: output, time_ms: time }];
}

/** The starts of older runs, which do not tell their prompt, with that of their first step's record.
 *
 * A run that has recorded no step yet tells its own, so each start looks for its record by time.
 */
function withPrompts(events, steps) {
  const firsts = steps.filter((step) => step.number === 1);
  return events.map((event, place) => {
    if (event.type !== "agent_start" || event.prompt) return event;
    const turn = events.slice(place).find((later) => later.type === "agent_turn_start");
    const record = turn && recordOf(turn, firsts);
    return record ? { ...event, prompt: record.prompt } : event;
  });
}

/** The last words of a run whose events are not kept. */
function endOf(view, past) {
  const told = past.some((event) => event.type === "agent_answer" && event.content === view.final_answer);
  if (view.running || view.unfinished || view.waiting_for || !view.reason || told) return [];
  if (!view.final_answer && past.at(-1)?.type === "agent_completion") return [];
  const at = { thread_id: view.thread_id, step: past.at(-1)?.step ?? 0, timestamp: view.updated_at };
  const answer = view.final_answer ? [{ ...at, type: "agent_answer", content: view.final_answer }] : [];
  return [...answer, { ...at, type: "agent_completion", steps: view.steps, reason: view.reason }];
}
