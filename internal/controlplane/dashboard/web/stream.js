// Server-sent events by fetch: unlike EventSource, it can send a token.

let token = sessionStorage.getItem("token") ?? "";

/** setToken sets the token of later streams. It stays in this tab. */
export function setToken(value) {
  token = value.trim();
  sessionStorage.setItem("token", token);
}

const firstPause = 250, lastPause = 5000, silence = 45000;

/**
 * follow reads a stream until the returned function is called. It connects again after each end. handlers has a function
 * for each event, onState(state, reason) for the connection, "live" or "waiting", and onDenied(status, reason).
 */
export function follow(path, handlers) {
  const control = new AbortController();
  run(path, handlers, control.signal);
  return () => control.abort();
}

async function run(path, handlers, signal) {
  for (let pause = firstPause; !signal.aborted; pause = Math.min(2 * pause, lastPause)) {
    const began = Date.now();
    let why = "";
    try {
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "same-origin" });
      if (!response.ok) {
        const reason = (await response.text()).trim();
        if ([401, 403].includes(response.status)) {
          handlers.onDenied(response.status, reason);
          return;
        }
        why = reason;
        throw new Error(reason);
      }
      await read(response.body, (name, text) => {
        if (name === "end") {
          why = JSON.parse(text).reason ?? "";
          return;
        }
        handlers.onState("live");
        handlers[name]?.(JSON.parse(text));
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
    }
    if (signal.aborted) return;
    if (why) handlers.onState("waiting", why);
    else if (Date.now() - began > lastPause) pause = firstPause;
    else handlers.onState("waiting", "");
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** read reads a stream to its end. It gives up if nothing arrives: the server sends a comment every 15 seconds. */
async function read(body, onEvent, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      let timer;
      const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("silent")), silence); });
      const { done, value } = await Promise.race([reader.read(), late]).finally(() => clearTimeout(timer));
      if (done || signal.aborted) return;
      buffer += value;
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        emit(buffer.slice(0, end), onEvent);
        buffer = buffer.slice(end + 2);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function emit(text, onEvent) {
  let name = "", data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  if (name) onEvent(name, data);
}
