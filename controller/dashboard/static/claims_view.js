// The pending claims, and why one of them is pending.

import { ApiError, get, path } from "./api.js";
import { h, place } from "./dom.js";
import { words } from "./format.js";
import { explanation } from "./explanation.js";

const SETTLE_MS = 500;
const UNMADE = "<extended-resources>";

export function claimsView({ pending }) {
  const list = h("div");
  const input = h("input", { type: "text", id: "ask", placeholder: "namespace/name", required: true, autocomplete: "off", autocapitalize: "none", spellcheck: "false", pattern: "\\s*[^\\s\\/]+\\/[^\\s\\/]+\\s*", title: "namespace/name" });
  const kind = h("select", { "aria-label": "Kind" }, h("option", { value: "claims", text: "Claim" }), h("option", { value: "pods", text: "Pod" }));
  const form = h("form", { class: "ask" }, h("label", { class: "visually-hidden", for: "ask", text: "Namespace and name" }), kind, input, h("button", { type: "submit", text: "Explain" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = place(kind.value, ...input.value.trim().split("/"));
  });
  const element = h("div", { class: "claims" },
    h("header", { class: "page-head" }, h("h1", { text: "Pending claims" }), form),
    list);

  function draw() {
    if (pending.error) {
      const { status, message } = pending.error;
      list.replaceChildren(h("div", { class: "notice" },
        h("h2", { text: status === 403 ? "You may not list claims" : "Pending claims are not known now" }),
        h("p", { text: message }),
        status === 403 && h("p", { text: "You can still ask for a claim of your own namespace above." })));
      return;
    }
    if (pending.number === null) {
      list.replaceChildren(h("p", { class: "muted", text: "Loading…" }));
      return;
    }
    if (!pending.claims.length) {
      list.replaceChildren(h("div", { class: "notice" }, h("h2", { text: "Nothing is pending" }), h("p", { text: "Every claim that Rootport looks at has its devices." })));
      return;
    }
    list.replaceChildren(h("ul", { class: "pending" }, pending.claims.map((claim) => h("li", {},
      h("a", { href: explanationOf(claim) },
        h("span", { class: "pending-name" }, h("b", { text: claim.name }), h("span", { class: "muted", text: claim.namespace })),
        h("span", { class: "tag", text: words(claim.reason ?? "") || "Not looked at yet" }),
        h("span", { class: "pending-message", text: claim.message ?? "" }),
        claim.pods?.length > 0 && h("span", { class: "muted small", text: `${claim.pods.length === 1 ? "Pod" : "Pods"} ${claim.pods.map(podName).join(", ")}` }))))));
  }

  pending.addEventListener("change", draw);
  draw();
  return {
    element,
    title: "Pending claims",
    search: () => input.focus(),
    escape: () => {
      location.hash = "#/";
    },
    leave: () => pending.removeEventListener("change", draw),
  };
}

/** A claim that is made of a pod's extended resources when the pod gets a node is no object yet: the pod is explained. */
function explanationOf(claim) {
  if (claim.name !== UNMADE) return place("claims", claim.namespace, claim.name);
  return claim.pods?.length > 0 ? place("pods", claim.namespace, podName(claim.pods[0])) : place("claims");
}

function podName(pod) {
  return typeof pod === "string" ? pod : pod.name;
}

export function explanationView({ connection }, kind, namespace, name) {
  const abort = new AbortController();
  let timer = 0;
  const body = h("div", { "aria-live": "polite", "aria-busy": "true" }, h("p", { class: "muted", text: "Looking at every node…" }));
  const element = h("div", { class: "explain" },
    h("header", { class: "page-head" },
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "#/claims", text: "Pending claims" }), h("span", { "aria-hidden": "true", text: "/" })),
      h("h1", {}, h("span", { class: "muted", text: `${kind === "pods" ? "pod " : ""}${namespace}/` }), name),
      h("button", { type: "button", text: "Look again", on: { click: () => read() } })),
    body);

  async function read() {
    body.setAttribute("aria-busy", "true");
    try {
      body.replaceChildren(explanation(await get(path(kind, namespace, name, "explain"), { signal: abort.signal })));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      const title = { 403: "You may not see this claim", 404: "There is no such claim" }[error.status] ?? "It cannot be explained now";
      body.replaceChildren(h("div", { class: "notice bad" }, h("h2", { text: title }), h("p", { text: error.message })));
    }
    body.setAttribute("aria-busy", "false");
  }

  function again() {
    clearTimeout(timer);
    timer = setTimeout(read, SETTLE_MS);
  }

  connection.addEventListener("claims", again);
  read();
  return {
    element,
    title: `${namespace}/${name}`,
    escape: () => {
      location.hash = "#/claims";
    },
    leave: () => {
      clearTimeout(timer);
      abort.abort();
      connection.removeEventListener("claims", again);
    },
  };
}
