// Starts the page: sign in, the connection, and the view that the address names.

import { ApiError, get, token } from "./api.js";
import { claimsView, explanationView } from "./claims_view.js";
import { Connection } from "./connection.js";
import { h, setText } from "./dom.js";
import { count } from "./format.js";
import { nodeView } from "./node_view.js";
import { overview } from "./overview.js";
import { signIn } from "./sign_in.js";
import { Store } from "./store.js";

const THEMES = ["auto", "light", "dark"];

/** The pending claims; `number` is null where it is not known, and `error` says why. */
class Pending extends EventTarget {
  claims = [];
  number = null;
  error = null;

  async read() {
    try {
      this.claims = (await get("claims/pending")).claims;
      this.number = this.claims.length;
      this.error = null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
      if (error.status === 403) this.number = null;
    }
    this.dispatchEvent(new Event("change"));
  }
}

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const light = document.getElementById("connection");
const badge = document.getElementById("pending-badge");
const signOut = document.getElementById("sign-out");
const store = new Store();
const pending = new Pending();
const connection = new Connection(store);
let view = null;
let ready = false;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decoded).filter(Boolean);
  const [first, ...rest] = parts;
  const context = { store, pending, connection };
  if (first === "nodes" && rest.length) return ["overview", () => nodeView(context, rest[0], rest[1])];
  if (first === "claims" && rest.length === 2) return ["claims", () => explanationView(context, "claims", ...rest)];
  if (first === "pods" && rest.length === 2) return ["claims", () => explanationView(context, "pods", ...rest)];
  if (first === "claims") return ["claims", () => claimsView(context)];
  return ["overview", () => overview(context)];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows a view in the place of the one before it. */
function show(make, name = "") {
  if (view?.moved?.(location.hash)) return;
  view?.leave?.();
  view = make();
  main.replaceChildren(view.element);
  document.title = `${view.title} · Rootport`;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view.shown) view.shown();
  else scrollTo(0, 0);
}

function navigate({ keepFocus = false } = {}) {
  if (!ready) return;
  const [name, make] = route();
  const before = view;
  show(make, name);
  if (!keepFocus && view !== before && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

function askForToken(message = "") {
  connection.stop();
  ready = false;
  signOut.hidden = true;
  delete document.body.dataset.signedIn;
  banner.hidden = true;
  show(() => signIn(message, (value) => {
    token.set(value);
    start();
  }));
}

function start() {
  signOut.hidden = false;
  document.body.dataset.signedIn = "";
  show(() => ({ element: h("div", { class: "loading", role: "status" }, h("span", { class: "visually-hidden", text: "Loading" }), h("div", { class: "loading-bar", "aria-hidden": "true" })), title: "Loading" }));
  connection.run();
}

function onState() {
  const { name, message, error } = connection.state;
  light.dataset.state = name;
  setText(light, { loading: "Loading", live: "Live", waiting: "Reconnecting", refused: "Refused", stopped: "" }[name]);
  banner.hidden = name !== "waiting";
  if (name === "waiting") {
    banner.replaceChildren(
      h("span", { text: `${message} ${ready ? "What is shown may be out of date. " : ""}Trying again.` }),
      h("button", { type: "button", text: "Now", on: { click: () => connection.retry() } }),
    );
  } else if (name === "refused" && error.status === 401) {
    token.forget();
    askForToken("The API server does not accept this token. It may have expired.");
  } else if (name === "refused") {
    ready = false;
    show(() => ({
      title: "Not allowed",
      element: h("div", { class: "notice bad" },
        h("h1", { text: "You may not see this" }),
        h("p", { text: error.message }),
        h("p", { text: "This page is for those who may list devices.rootport.dev. An administrator gives that right:" }),
        h("pre", { text: "kubectl create clusterrolebinding see-devices --clusterrole=rootport-viewer --user=NAME" })),
    }));
  }
}

/** When the first heat map is on the screen, for the measurement. */
function markPainted() {
  requestAnimationFrame(() => setTimeout(() => performance.mark("rootport:first-view"), 0));
}

store.addEventListener("change", () => {
  if (ready) return;
  ready = true;
  navigate({ keepFocus: document.activeElement !== document.body });
  markPainted();
});
pending.addEventListener("change", () => {
  badge.hidden = !pending.number;
  setText(badge, pending.number ? count(pending.number) : "");
});
connection.addEventListener("state", onState);
connection.addEventListener("claims", () => pending.read());
addEventListener("hashchange", () => navigate());
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address names the view, so it cannot name the place to skip to.
  event.preventDefault();
  main.focus();
});
signOut.addEventListener("click", () => {
  token.forget();
  askForToken();
});
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && view?.search) {
    event.preventDefault();
    view.search();
  } else if (event.key === "Escape") {
    if (typing) event.target.blur();
    else view?.escape?.();
  }
});

const themeButton = document.getElementById("theme");
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const says = { auto: "as the system's", light: "light", dark: "dark" }[theme];
  setText(themeButton, `◐ ${theme[0].toUpperCase()}${theme.slice(1)}`);
  themeButton.setAttribute("aria-label", `Theme: ${says}`);
}
function storedTheme() {
  const theme = localStorage.getItem("rootport.theme");
  return THEMES.includes(theme) ? theme : "auto";
}
themeButton.addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  localStorage.setItem("rootport.theme", theme);
  setTheme(theme);
});
setTheme(storedTheme());

if (token.get()) start();
else askForToken();
