// One node: its PCIe tree, who has what, and a panel for one device.

import { ApiError, get, path } from "./api.js";
import { devicePanel } from "./device_panel.js";
import { announce, h, place } from "./dom.js";
import { counted } from "./format.js";
import { holdersOf } from "./holders.js";
import { visited } from "./overview.js";
import { tree } from "./pcie_tree.js";

const SETTLE_MS = 300;

export function nodeView({ store }, name, device = "") {
  let selected = device;
  let data = null;
  let timer = 0;
  let highlighted = "";
  const abort = new AbortController();
  const body = h("div", { class: "node-body" }, h("p", { class: "muted", role: "status", text: "Loading…" }));
  const state = h("span", { class: "state" });
  const note = h("span", { class: "muted" });
  const element = h("div", { class: "node", on: { keydown: onKey } },
    h("header", { class: "page-head" },
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "#/", text: "Devices" }), h("span", { "aria-hidden": "true", text: "/" })),
      h("h1", { text: name }), state, note),
    body);

  async function read() {
    try {
      data = await get(path("nodes", name), { signal: abort.signal });
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      const gone = error.status === 404;
      body.replaceChildren(h("div", { class: "notice bad" }, h("h2", { text: gone ? "There is no such node" : "This node cannot be shown" }), h("p", { text: error.message }), h("a", { href: "#/", text: "Back to all devices" })));
      data = null;
    }
  }

  function draw() {
    if (!data) return;
    state.className = `state ${data.state.toLowerCase()}`;
    state.textContent = { Ready: "Ready", NotReady: "Not ready", Silent: "Silent" }[data.state] ?? data.state;
    const why = data.state === "Silent" ? "nothing is heard of its plugin" : data.reason ?? "";
    note.textContent = [why, data.managed ? "managed: Rootport's placement allocates its devices" : ""].filter(Boolean).join("; ");
    const holders = holdersOf(data.devices);
    const shown = data.devices.find(({ spec }) => spec.deviceName === selected);
    const focus = body.contains(document.activeElement) ? document.activeElement.closest(".panel") ? ".panel" : document.activeElement.dataset.device ?? document.activeElement.dataset.claim ?? "" : "";
    if (!data.devices.length) {
      body.replaceChildren(h("div", { class: "notice" }, h("h2", { text: "No devices" }), h("p", { text: "This node's inventory names no GPU, NIC or FPGA." })));
      return;
    }
    const scrolled = shown && body.querySelector(".panel")?.dataset.device === selected ? body.querySelector(".panel").scrollTop : 0;
    body.classList.toggle("with-panel", Boolean(shown));
    body.replaceChildren(
      h("div", { class: "node-main" }, holderList(holders), tree(data.devices, holders, { selected, onSelect: select })),
      ...(shown ? [devicePanel(shown, holders, () => select(""))] : []));
    if (scrolled) body.querySelector(".panel").scrollTop = scrolled;
    if (!holders.has(highlighted)) highlighted = "";
    highlight();
    mend();
    if (focus === ".panel") body.querySelector(".panel")?.focus({ preventScroll: true });
    else if (focus) button(focus)?.focus({ preventScroll: true });
  }

  function holderList(holders) {
    if (!holders.size) return h("p", { class: "muted holders-none", text: "No claim has a device here." });
    const joint = [...holders.values()].some((claim) => claim.joint);
    return h("section", { class: "holders", "aria-label": "Claims that have devices here" },
      h("ul", {}, [...holders.values()].map((claim) => h("li", {},
        h("button", {
          type: "button",
          class: `claim hue-${claim.hue} ${claim.joint ? "joint" : ""}`,
          "aria-pressed": "false",
          title: "Show its devices alone",
          data: { claim: claim.uid },
          on: {
            click: () => {
              highlighted = highlighted === claim.uid ? "" : claim.uid;
              highlight();
            },
          },
        },
          h("span", { class: "letter", text: claim.letter }),
          h("span", { class: "claim-name", text: `${claim.namespace}/${claim.name}` }),
          h("span", { class: "muted", text: [counted(claim.devices.size, "device"), claim.joint && "joint"].filter(Boolean).join(", ") }))))),
      joint && h("p", { class: "muted small", text: "Joint: one claim with a GPU and a NIC; its devices are outlined alike." }));
  }

  function highlight() {
    for (const chip of body.querySelectorAll(".claim")) chip.setAttribute("aria-pressed", String(chip.dataset.claim === highlighted));
    for (const item of body.querySelectorAll(".device, .vf")) item.classList.toggle("dim", Boolean(highlighted) && !item.dataset.claims.split(" ").includes(highlighted));
  }

  // One stop for Tab in the tree; arrows move on from there.
  function mend() {
    const all = [...body.querySelectorAll(".device, .vf")];
    for (const item of all) item.tabIndex = -1;
    (button(selected) ?? all[0])?.setAttribute("tabindex", "0");
  }

  function button(deviceName) {
    return [...body.querySelectorAll(".device, .vf, .claim")].find((item) => (item.dataset.device ?? item.dataset.claim) === deviceName);
  }

  function onKey(event) {
    const target = event.target.closest(".device, .vf");
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!target || step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const all = [...body.querySelectorAll(".device, .vf")];
    const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(target) + step))];
    for (const item of all) item.tabIndex = item === next ? 0 : -1;
    next.focus();
  }

  function select(deviceName) {
    const before = selected;
    location.hash = deviceName ? place("nodes", name, deviceName) : place("nodes", name);
    if (!deviceName) requestAnimationFrame(() => button(before)?.focus({ preventScroll: true }));
  }

  function onChange({ detail: { name: changed } }) {
    if (changed !== null && changed !== name) return;
    clearTimeout(timer);
    timer = setTimeout(read, SETTLE_MS);
  }

  store.addEventListener("change", onChange);
  read();
  return {
    element,
    title: name,
    /** Another device of the same node is no new view. */
    moved: (hash) => {
      const [kind, node, other = ""] = hash.replace(/^#\/?/, "").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
      if (kind !== "nodes" || node !== name) return false;
      if (selected === other) return true;
      selected = other;
      draw();
      const found = data?.devices.find(({ spec }) => spec.deviceName === other);
      if (found) {
        announce(`${other}: ${found.status?.state ?? "Unknown"}`);
        if (matchMedia("(max-width: 860px)").matches) body.querySelector(".panel")?.scrollIntoView();
      }
      return true;
    },
    escape: () => {
      if (selected) {
        select("");
        return;
      }
      visited.node = name;
      location.hash = "#/";
    },
    leave: () => {
      visited.node = name;
      visited.device = selected;
      clearTimeout(timer);
      abort.abort();
      store.removeEventListener("change", onChange);
    },
  };
}
