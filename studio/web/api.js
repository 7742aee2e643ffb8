// The HTTP calls of the page: threads, what they hold, and what the server offers.

const PAGE = 1_000; // events a call; the server's own bound
const TIMEOUT_MS = 15_000; // a healthy server answers within one second
const MOVE_MS = 180_000; // a move writes files, a fork copies a folder

/** What was refused or did not arrive: words for the person, the server's one word for programs, or "". */
export class ApiError extends Error {
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

export const readOptions = () => call("options.json");

/** The presets there are: `{presets: [{name, description}], preset}`. */
export const readPresets = () => call("api/code-chat/presets");

/** The folders in one; those that the server allows for null. */
export const listFolders = (path) =>
  call(`api/code-chat/workspaces${path === null ? "" : `?path=${encodeURIComponent(path)}`}`);

/** Whether a run may work in the folder: `{valid, path, message}`. */
export const checkFolder = (path) => call("api/code-chat/workspaces/validate", { path });

export const listThreads = (limit) => call(`api/threads?limit=${limit}`);

export const readThread = (id) => call(`api/threads/${encodeURIComponent(id)}`);

/** The record that each step of the thread left. */
export const readSteps = (id) =>
  call(`api/threads/${encodeURIComponent(id)}/steps`).then(({ steps }) => steps);

/** The long-lived processes of the thread: `{processes: [{process_id, command, running, kept, exit_code, ...}]}`. */
export const listProcesses = (id) => call(`api/threads/${encodeURIComponent(id)}/processes`);

/** `keep` one beyond its run, or `stop` it. */
export const actOnProcess = (id, processId, action) =>
  call(`api/threads/${encodeURIComponent(id)}/processes/${encodeURIComponent(processId)}`, { action });

/** The thread's past: `{steps, entries}`, see docs/http.md. */
export const readTimeline = (id) => call(`api/threads/${encodeURIComponent(id)}/timeline`);

/** What a step changed: `{files: [{path, change, added, removed, diff, cut}], total}`. */
export const readDiff = (id, from, to) =>
  call(`api/threads/${encodeURIComponent(id)}/diff?from_step=${from}&to_step=${to}`);

/** What a move `{kind, to, what}` would do, with the `token` that makes it. */
export const previewMove = (id, plan) =>
  call(`api/threads/${encodeURIComponent(id)}/moves/preview`, plan, MOVE_MS);

export const makeMove = (id, plan) => call(`api/threads/${encodeURIComponent(id)}/moves`, plan, MOVE_MS);

/** A new thread that begins at a step of this one: `{thread_id, ...}`. */
export const forkThread = (id, at) => call(`api/threads/${encodeURIComponent(id)}/fork`, { at }, MOVE_MS);

/** Every kept event of the thread with a `seq` above `after`, in order. */
export async function eventsSince(id, after) {
  const all = [];
  for (let seq = after; ;) {
    const { events } = await call(`api/threads/${encodeURIComponent(id)}/events?after=${seq}&limit=${PAGE}`);
    all.push(...events);
    if (events.length < PAGE) return all;
    seq = events.at(-1).seq;
  }
}

/** What the server answers; with a body it is sent something. */
async function call(path, body = null, timeoutMs = TIMEOUT_MS) {
  const sent = body && {
    method: "POST",
    body: JSON.stringify(body),
    headers: { Accept: "application/json", "Content-Type": "application/json" },
  };
  let response;
  try {
    response = await fetch(path, {
      ...(sent ?? { headers: { Accept: "application/json" } }),
      signal: AbortSignal.timeout(timeoutMs),
    });
  } catch {
    throw new ApiError("The server does not answer. Is `lockstitch serve` still running?");
  }
  const got = await response.json().catch(() => null);
  if (response.ok && got !== null) return got;
  throw new ApiError(
    got?.message ?? `The server answered with status ${response.status}.`,
    got?.error ?? "refused",
  );
}
