// Server-sent events over fetch. EventSource can neither send the token nor report the reason of a
// refusal.

import { request, RequestError } from "./request.js";

const MAX_EVENT = 4 << 20;

// Parses text in pieces into events: {event, data}. Pieces may end anywhere.
export class EventParser {
  #rest = "";
  #event = "";
  #data = [];

  // Yields the events that are complete.
  * take(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    if (this.#rest.length > MAX_EVENT) {
      throw new RequestError(0, "an event is too long");
    }
    for (const line of lines) {
      if (line === "" && this.#data.length > 0) {
        yield { event: this.#event || "message", data: this.#data.join("\n") };
      }
      if (line === "") {
        this.#event = "";
        this.#data = [];
      } else {
        this.#takeField(line);
      }
    }
  }

  #takeField(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") {
      this.#event = value;
    } else if (name === "data") {
      this.#data.push(value);
    }
  }
}

// Calls `onEvent` for each event until the stream ends. The end is an error, because the server's
// streams have no end. Throws RequestError, or the error of `signal`.
export async function readEvents(path, signal, onEvent) {
  const response = await request(path, "text/event-stream", signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (signal.aborted) {
        throw error;
      }
      throw new RequestError(0, "the connection was lost");
    }
    if (piece.done) {
      throw new RequestError(0, "the server closed the stream");
    }
    for (const each of parser.take(piece.value)) {
      onEvent(each.event, JSON.parse(each.data));
    }
  }
}
