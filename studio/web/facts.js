// The side of a thread: its TODO list, and what it has cost.

import { byId, icon, make, setText } from "./dom.js";
import { count, folder, money, plural } from "./words.js";

const MARKS = { completed: "check", in_progress: "turn", todo: null };
const SPOKEN = { completed: "done: ", in_progress: "in progress: ", todo: "to do: " };

/** The TODO list as it stands. */
export class TodoView {
  clear() {
    this.show([]);
  }

  hear(event) {
    if (event.type === "agent_todos") this.show(event.tasks);
  }

  show(tasks) {
    const done = tasks.filter((task) => task.status === "completed").length;
    const share = tasks.length ? `${done} of ${tasks.length}` : "";
    byId("todos").replaceChildren(...tasks.map(todo));
    byId("todo-word").hidden = tasks.length > 0;
    byId("todo-bar").hidden = !tasks.length;
    byId("todo-bar").max = tasks.length || 1;
    byId("todo-bar").value = done;
    setText(byId("todo-count"), share);
    byId("facts-count").hidden = !tasks.length;
    setText(byId("facts-count"), `${done}/${tasks.length}`);
  }
}

function todo(task) {
  const mark = make("span", { class: "todo-mark" }, MARKS[task.status] ? icon(MARKS[task.status]) : null);
  const words = make("span", {}, make("span", { class: "sr-only" }, SPOKEN[task.status] ?? ""), task.content);
  return make("li", { "data-status": task.status }, mark, words);
}

/** Tokens, cost and how full the model's window is. A run's figures arrive as sums since its start. */
export class TotalsView {
  clear() {
    this.before = { input: 0, output: 0, cost: 0 };
    this.run = null;
    this.start = null;
    this.thread = "";
    this.show();
  }

  hear(event) {
    if (event.type === "agent_start") {
      this.closeRun();
      this.start = event;
    } else if (event.spent) this.addRecord(event);
    else if (event.type === "agent_usage") this.run = event;
    else return;
    this.thread = event.thread_id;
    this.show();
  }

  /** Figures of one step, where those of its run are not kept. */
  addRecord({ spent }) {
    this.closeRun();
    const { input, output, cost } = this.before;
    const price = spent.cost_usd ?? null;
    this.before = {
      input: input + spent.input_tokens,
      output: output + spent.output_tokens,
      cost: cost === null || price === null ? null : cost + price,
    };
  }

  closeRun() {
    this.before = this.sums();
    this.run = null;
  }

  sums() {
    const { run, before } = this;
    if (!run) return before;
    const unknown = before.cost === null || run.run_cost_usd === null;
    return {
      input: before.input + run.run_input_tokens,
      output: before.output + run.run_output_tokens,
      cost: unknown ? null : before.cost + run.run_cost_usd,
    };
  }

  /** The thread's id stands in a row of its own, whole: the command line goes on with it. */
  show() {
    const sums = this.sums();
    const rows = [
      ["Tokens in", count(sums.input)],
      ["Tokens out", count(sums.output)],
      ["Cost", this.costWords(sums.cost)],
      ...this.window(),
      ...this.settings(),
    ];
    const pairs = rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", { class: name === "Thread" && "whole" }, value)]);
    byId("totals").replaceChildren(...pairs);
  }

  /** A scripted model replays a file: it costs nothing, which is another thing than $0.00 spent. */
  costWords(cost) {
    const scripted = (this.run ?? this.start)?.model.startsWith("scripted:");
    return scripted && cost === 0 ? "none (scripted model)" : money(cost);
  }

  window() {
    const { context_tokens: used, context_window: size } = this.run ?? {};
    if (!size) return used ? [["Context", plural(used, "token")]] : [];
    const percent = Math.round((100 * used) / size);
    const gauge = make("progress", { max: size, value: used, "aria-hidden": "true" });
    return [["Context", make("span", {}, `${percent} % of ${count(size)}`, gauge)]];
  }

  settings() {
    if (!this.start) return [];
    const { model, workspace } = this.start;
    const place = make("span", { title: workspace }, folder(workspace));
    return [
      ["Model", model],
      ["Workspace", place],
      ["Thread", make("code", {}, this.thread)],
    ];
  }
}
