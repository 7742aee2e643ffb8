// The thread on the page: its events, its run, and what the person says to it.
//
// Every kept event is told once and in order: `seq` is that of the last one, and after a lost connection the
// page asks for what came after it. Pieces of a reply being written are not kept, and may be missed.

import { ApiError, eventsSince, readSteps, readThread, readTimeline } from "./api.js";
import { hasOrphans, pastEvents, withoutLeft } from "./history.js";
import { Line } from "./line.js";
import {
  approvalMessage,
  chatMessage,
  eventOf,
  followMessage,
  goOnMessage,
  inputMessage,
  stopMessage,
} from "./wire.js";

/** A thread and the way to its server. `hears` is told all that happens. */
export class Thread {
  constructor(hears) {
    this.hears = hears;
    this.line = new Line({
      opened: () => this.opened(),
      frame: (frame) => this.take(frame),
      lost: (inMs) => this.lost(inMs),
    });
    this.forget();
  }

  forget() {
    this.line.rest();
    this.id = null;
    this.seq = 0;
    this.running = false;
    this.runBy = ""; // who runs it, where this server does not
    this.steps = 0; // as many as there were when we looked
    this.updatedAt = ""; // when it last stood as we know it
    this.first = []; // messages that wait for the connection
    this.pending = null; // what was sent and has not begun: {resolve, reject}
  }

  /** Show a thread that is there, from its first kept event on. */
  async open(id) {
    this.forget();
    this.id = id;
    const [view, steps, events] = await Promise.all([readThread(id), readSteps(id), eventsSince(id, 0)]);
    const moves = hasOrphans(steps, events) ? await movesOf(id) : [];
    if (this.id !== id) return; // another one was opened meanwhile
    this.hears.opened(view);
    for (const event of pastEvents(view, steps, withoutLeft(events, steps, moves))) this.hears.event(event, { live: false });
    this.seq = events.at(-1)?.seq ?? 0;
    this.stand(view);
  }

  /** Where the thread stands, once its events are told. */
  stand(view) {
    this.updatedAt = view.updated_at;
    this.steps = view.steps;
    this.become(view.running, view.run_by);
    if (!view.running) return this.hears.rests(view);
    if (this.line.open) this.line.send(followMessage(this.id, this.seq));
    else this.line.want();
  }

  /** Begin a run. Fulfilled when it has begun; rejected with the reason when it was refused. */
  start(content, wish) {
    this.id ??= newId();
    return this.begin(chatMessage(this.id, content, wish));
  }

  /** Go on where the thread stands. */
  goOn(wish) {
    return this.begin(goOnMessage(this.id, wish));
  }

  answer(actionId, reply) {
    return this.begin(approvalMessage(this.id, actionId, reply));
  }

  begin(message) {
    return new Promise((resolve, reject) => {
      this.pending = { resolve, reject };
      this.first.push(message);
      if (this.line.open) this.sendFirst();
      else this.line.want();
    });
  }

  sendFirst() {
    for (const message of this.first.splice(0)) this.line.send(message);
  }

  /** Tell a run that goes on something for its next step. */
  say(content) {
    if (!this.line.open) throw new ApiError("The connection is lost; what you wrote was not sent.");
    this.line.send(inputMessage(this.id, content));
  }

  stop() {
    if (this.line.open) this.line.send(stopMessage(this.id));
  }

  /** The connection is there, for the first time or again. */
  async opened() {
    this.hears.connected();
    if (this.first.length) this.sendFirst();
    else if (this.running || this.pending) await this.catchUp();
  }

  /** Hear what happened while the connection was lost, and what follows. */
  async catchUp() {
    const { id } = this;
    try {
      const view = await readThread(id);
      const events = view.running ? [] : await eventsSince(id, this.seq);
      if (id !== this.id) return;
      if (!view.running && view.last_seq < this.seq) return this.open(id); // what was told last was lost with the server
      for (const event of events) this.tell(event);
      if (!view.running)
        this.settle(new ApiError("The connection was lost before this arrived. Please send it again."));
      this.stand(view);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code) this.refuse(error);
      else this.line.drop();
    }
  }

  /** The list of threads shows where this one stands: look again when another door has moved it. */
  async notice({ running, updated_at: updatedAt }) {
    const known = running === this.running && (running || updatedAt === this.updatedAt);
    const cares = this.pending || (this.running && !this.line.open); // it will look by itself
    if (!known && !cares) await this.look();
  }

  /** Tell what happened since we looked last, and where the thread stands now. */
  async look() {
    const { id, running } = this;
    try {
      const view = await readThread(id);
      const events = view.running ? [] : await eventsSince(id, this.seq);
      if (id !== this.id || this.pending || running !== this.running) return;
      if (!view.running && view.steps < this.steps) return this.open(id); // another door went back
      for (const event of events) this.tell(event);
      this.stand(view);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next look may do better
    }
  }

  /** The connection fell, and is tried again for a run that goes on or may have begun. */
  lost(inMs) {
    if (this.first.length) {
      this.first = [];
      this.settle(new ApiError("The server does not answer. Is it still running?"));
    }
    if (this.running || this.pending) this.hears.lost(inMs, () => this.line.again());
    else this.line.rest();
  }

  take(frame) {
    const event = eventOf(frame);
    if (event && event.thread_id === this.id) this.tell(event);
    else if (frame.type === "response_complete" && frame.thread_id === this.id && !this.pending) this.rest();
    else if (frame.type === "error") this.refuse(new ApiError(frame.message, frame.error));
  }

  /** The run is over, or waits. One of another door may have ended without its last words. */
  rest() {
    const { runBy } = this;
    this.become(false);
    if (runBy) this.look();
  }

  tell(event) {
    if (!event.seq && event.type === "agent_error" && !this.runBy)
      return this.refuse(new ApiError(event.message, "refused"));
    if (event.seq <= this.seq) return;
    if (event.type !== "agent_delta") this.seq = event.seq;
    this.settle();
    if (event.type !== "agent_completion") this.become(true, this.runBy);
    this.hears.event(event, { live: true });
  }

  refuse(error) {
    if (this.pending) this.settle(error);
    else this.hears.failed(error);
  }

  /** What was sent has arrived, or has not for this reason. */
  settle(error = null) {
    const { pending } = this;
    this.pending = null;
    if (error) pending?.reject(error);
    else pending?.resolve();
  }

  become(running, runBy = "") {
    if (running === this.running && runBy === this.runBy) return;
    Object.assign(this, { running, runBy });
    this.hears.running(running, runBy);
  }
}

/** Where a person went back in the thread, as its timeline has it. */
async function movesOf(id) {
  const { entries } = await readTimeline(id);
  return entries.filter((entry) => entry.type === "move" && !entry.source);
}

/** A UUID; `crypto.randomUUID` is not there on a page of plain HTTP from another machine. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
