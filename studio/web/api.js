// The HTTP calls of the page: threads, what they hold, and what the server offers.

const PAGE = 1_000; // events a call; the server's own bound
const TIMEOUT_MS = 15_000; // a healthy server answers within one second

/** What was refused or did not arrive: words for the person, the server's one word for programs, or "". */
export class ApiError extends Error {
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

export const readOptions = () => call("options.json");

export const listThreads = (limit) => call(`api/threads?limit=${limit}`);

export const readThread = (id) => call(`api/threads/${encodeURIComponent(id)}`);

/** The record that each step of the thread left. */
export const readSteps = (id) =>
  call(`api/threads/${encodeURIComponent(id)}/steps`).then(({ steps }) => steps);

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

async function call(path) {
  let response;
  try {
    response = await fetch(path, {
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new ApiError("The server does not answer. Is `lockstitch serve` still running?");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  throw new ApiError(
    body?.message ?? `The server answered with status ${response.status}.`,
    body?.error ?? "refused",
  );
}
