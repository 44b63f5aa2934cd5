// The controller's HTTP API. Paths are relative to the page: it may stand behind a proxy's prefix.

const BASE = new URL("../api/v1/", document.baseURI);
const KEY = "rootport.token";

/** An answer that is none; `status` is 0 where there was no answer at all. */
export class ApiError extends Error {
  constructor(status, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** The token lives as long as the tab: never in a cookie, a URL or localStorage. */
export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** GET; the answer's Response. */
export async function open(path, { signal } = {}) {
  let response;
  try {
    response = await fetch(new URL(path, BASE), {
      headers: { Authorization: `Bearer ${token.get()}` },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The controller does not answer.");
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await reason(response), Number(response.headers.get("Retry-After")) || 0);
}

/** GET of JSON. */
export async function get(path, options) {
  const response = await open(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The controller's answer was cut short.");
  }
}

export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

async function reason(response) {
  const text = (await response.text().catch(() => "")).trim();
  if ((response.headers.get("Content-Type") ?? "").includes("json")) {
    try {
      const { message, error } = JSON.parse(text);
      return message ?? error ?? `HTTP ${response.status}`;
    } catch {
      return `HTTP ${response.status}`;
    }
  }
  return text.length > 0 && text.length < 500 ? text : `HTTP ${response.status}`;
}
