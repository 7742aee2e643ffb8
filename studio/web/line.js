// One WebSocket to the server, opened when needed and opened again when it is lost.
//
// Knows frames and silence, not threads: whoever uses it says on `opened` what it wants to hear.

const AGAIN_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000]; // a restart takes seconds, a sleep hours
const OPENING_MS = 10_000; // a handshake that takes longer has failed

/** The connection. `lost(inMs)` says when it is tried again. */
export class Line {
  constructor({ opened, frame, lost }) {
    Object.assign(this, { opened, frame, lost, socket: null, wanted: false, tries: 0, timer: 0 });
    window.addEventListener("online", () => this.wanted && this.again());
  }

  get open() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** Be connected from now on. */
  want() {
    this.wanted = true;
    if (!this.socket) this.connect();
  }

  /** Be connected no more. */
  rest() {
    this.wanted = false;
    this.tries = 0;
    clearTimeout(this.timer);
    const { socket } = this;
    this.socket = null;
    socket?.close();
  }

  send(message) {
    this.socket.send(JSON.stringify(message));
  }

  /** The server is there and does not answer: treat the connection as lost. */
  drop() {
    this.socket?.close();
  }

  /** Try now. */
  again() {
    if (this.open) return;
    clearTimeout(this.timer);
    this.socket?.close();
    this.connect();
  }

  connect() {
    const url = new URL("ws", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.socket = socket;
    const slow = setTimeout(() => socket.close(), OPENING_MS);
    socket.addEventListener("open", () => {
      clearTimeout(slow);
      if (socket === this.socket) this.opened();
    });
    socket.addEventListener("message", ({ data }) => {
      this.tries = 0;
      if (socket === this.socket) this.frame(JSON.parse(data));
    });
    socket.addEventListener("close", () => {
      clearTimeout(slow);
      if (socket === this.socket) this.fell();
    });
  }

  fell() {
    this.socket = null;
    if (!this.wanted) return;
    const wait = AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.connect(), wait);
    this.lost(wait);
  }
}
