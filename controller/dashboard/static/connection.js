// Keeps the store true to the controller: everything once, then events; after an interruption on from where it was.

import { ApiError, get, open } from "./api.js";
import { readEvents } from "./event_stream.js";

// The server writes at least a comment every 15 s.
const SILENCE_MS = 40_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/**
 * States: `loading`, `live`, `waiting` (with `until` and `message`), `refused` (with `error`: 401 or 403), `stopped`.
 * Dispatches `state`, and `claims` where the pending claims changed.
 */
export class Connection extends EventTarget {
  #store;
  #abort = new AbortController();
  #wake = null;
  #loaded = false;
  state = { name: "loading" };

  constructor(store) {
    super();
    this.#store = store;
    addEventListener("online", () => this.#wake?.());
  }

  /** Runs until stopped or refused. */
  async run() {
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    let wait = FIRST_WAIT_MS;
    while (!signal.aborted) {
      try {
        if (!this.#loaded) await this.#load(signal);
        await this.#follow(signal, () => {
          wait = FIRST_WAIT_MS;
        });
        // The server ends a stream after ten minutes, so that the token is looked at again. One that ends at once is
        // asked for less often.
        await this.#pause(FIRST_WAIT_MS, signal);
      } catch (error) {
        if (signal.aborted) break;
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          this.#set({ name: "refused", error });
          return;
        }
        const pause = Math.max(wait, (error.retryAfter ?? 0) * 1000) * (0.8 + 0.4 * Math.random());
        const message = error instanceof ApiError ? error.message : "The connection was lost.";
        this.#set({ name: "waiting", message, until: Date.now() + pause });
        await this.#pause(pause, signal);
        wait = Math.min(wait * 2, LONGEST_WAIT_MS);
      }
    }
    this.#set({ name: "stopped" });
  }

  stop() {
    this.#loaded = false;
    this.#abort.abort();
  }

  /** Tries again without waiting. */
  retry() {
    this.#wake?.();
  }

  async #load(signal) {
    this.#store.replace(await get("nodes", { signal }));
    this.#loaded = true;
    this.dispatchEvent(new Event("claims"));
  }

  async #follow(signal, onLive) {
    const mine = new AbortController();
    const stop = () => mine.abort();
    signal.addEventListener("abort", stop);
    let quiet = setTimeout(stop, SILENCE_MS);
    try {
      const response = await open(`events?since=${this.#store.version}`, { signal: mine.signal });
      const again = this.state.name === "waiting";
      onLive();
      this.#set({ name: "live" });
      if (again) this.dispatchEvent(new Event("claims"));
      await readEvents(
        response.body,
        (event) => this.#take(event, stop),
        () => {
          clearTimeout(quiet);
          quiet = setTimeout(stop, SILENCE_MS);
        },
      );
    } catch (error) {
      // Ended by ourselves, for silence or a reset: not an error of the caller's.
      if (signal.aborted || !mine.signal.aborted) throw error;
      if (this.#loaded) throw new ApiError(0, "The controller fell silent.");
    } finally {
      clearTimeout(quiet);
      signal.removeEventListener("abort", stop);
    }
  }

  #take(event, stop) {
    const version = Number(event.id) || undefined;
    if (event.name === "node") this.#store.put(JSON.parse(event.data), version);
    else if (event.name === "gone") this.#store.remove(JSON.parse(event.data).name, version);
    else if (event.name === "claims") this.dispatchEvent(new Event("claims"));
    else if (event.name === "reset") {
      this.#loaded = false;
      stop();
    }
    // Claims and unknown events move the version as well.
    if (version) this.#store.version = version;
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #pause(milliseconds, signal) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      const now = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#wake = now;
      signal.addEventListener("abort", now, { once: true });
    });
  }
}
