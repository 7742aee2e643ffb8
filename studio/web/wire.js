// What the page and `/ws` say to each other. Touches neither page nor socket.

/** What was chosen; null is left to the server. */
const chosen = (choices) => Object.fromEntries(Object.entries(choices).filter(([, value]) => value !== null));

/** Begin a run on a thread, new or known. */
export function chatMessage(threadId, content, wish) {
  return {
    type: "chat",
    agent_mode: true,
    thread_id: threadId,
    content,
    agent_max_steps: wish.max_steps,
    agent_loop_strategy: wish.strategy,
    mode: wish.mode,
    ...chosen({ tools: wish.tools, model: wish.model, preset: wish.preset, workspace: wish.workspace }),
  };
}

/** Hear a run that goes on, from the event after `after`. */
export const followMessage = (threadId, after) => ({ type: "agent_follow", thread_id: threadId, after });

/** Go on where a thread stands, without a new prompt. */
export function goOnMessage(threadId, wish) {
  const { content: _, ...message } = chatMessage(threadId, "", wish);
  return { ...message, type: "agent_resume" };
}

export const stopMessage = (threadId) => ({ type: "agent_control", action: "stop", thread_id: threadId });

/** The answer to a question, or words for the next step of a run. */
export const inputMessage = (threadId, content) => ({
  type: "agent_user_input",
  thread_id: threadId,
  content,
});

/** A person's word on an action. */
export const approvalMessage = (threadId, actionId, reply) => ({
  type: "agent_approval",
  thread_id: threadId,
  action_id: actionId,
  ...reply,
});

/** The event in a frame of the server; null for a frame that is none, or repeats one in short. */
export function eventOf(frame) {
  if (frame.type !== "agent_update") return null;
  const { update_type: type, ...event } = frame;
  return { ...event, type };
}
