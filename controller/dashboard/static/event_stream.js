// Server-sent events by fetch: EventSource can send no Authorization header.
// The format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

// No event is longer; a stream without an end of line fills no memory.
const LONGEST = 16 * 1024 * 1024;

/**
 * Reads a stream to its end.
 * @param {ReadableStream<Uint8Array>} body
 * @param {(event: {id: string, name: string, data: string}) => void} onEvent
 * @param {() => void} onBytes Called for everything that comes, comments as well.
 */
export async function readEvents(body, onEvent, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { id: "", name: "message", data: [] };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    rest += value;
    // A "\r" at the end may be the first half of "\r\n".
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    if (rest.length > LONGEST) throw new Error("an event is too long");
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) onEvent({ id: event.id, name: event.name, data: event.data.join("\n") });
        event = { id: event.id, name: "message", data: [] };
      } else {
        takeLine(line, event);
      }
    }
  }
}

function takeLine(line, event) {
  const colon = line.indexOf(":");
  if (colon === 0) return;
  const field = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (field === "data") event.data.push(value);
  else if (field === "event") event.name = value;
  else if (field === "id") event.id = value;
}
