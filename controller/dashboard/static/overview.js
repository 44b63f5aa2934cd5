// The first view: sums of the cluster, the legend, which is the filter as well, and the heat map.

import { announce, h, place, setText } from "./dom.js";
import { byName, bytes, count, counted, percent } from "./format.js";
import { HeatMap, matches, swatch, typeSwatch } from "./heat_map.js";
import { KINDS, TYPES } from "./kinds.js";
import { totals } from "./store.js";

const SORTS = {
  name: { label: "Name", compare: () => 0 },
  free: { label: "Most free GPUs", compare: (a, b) => b.summary.free.gpu - a.summary.free.gpu },
  memory: { label: "Largest free memory", compare: (a, b) => b.summary.memory.largest - a.summary.memory.largest },
  used: { label: "Most used", compare: (a, b) => share(b) - share(a) },
  trouble: { label: "Trouble first", compare: (a, b) => trouble(b) - trouble(a) },
};

// Kept while the page is open, so that Esc from a node leads back to the same view.
const memory = { text: "", kinds: new Set(), types: new Set(), sort: "name", scroll: 0 };

/** Where the reader went from the heat map: the focus returns there. */
export const visited = { node: "", device: "" };

function share({ summary }) {
  return summary.memory.total ? summary.memory.used / summary.memory.total : 0;
}

function trouble({ node, summary }) {
  const kinds = Object.values(summary.counts);
  const sum = (kind) => kinds.reduce((all, item) => all + (item[kind] ?? 0), 0);
  return (node.state === "Ready" ? 0 : 1000) + sum("unhealthy") * 100 + summary.degraded * 10 + sum("fragmented");
}

export function overview({ store, pending }) {
  const map = new HeatMap(store);
  const figures = h("dl", { class: "figures" });
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Show devices that are" });
  const types = h("div", { class: "segments", role: "group", "aria-label": "Show devices of type" });
  const search = h("input", { type: "search", id: "search", placeholder: "Node, model or reason", "aria-label": "Search nodes (press /)", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false", value: memory.text });
  const sort = h("select", { "aria-label": "Sort nodes by" }, Object.entries(SORTS).map(([value, { label }]) => h("option", { value, selected: memory.sort === value, text: label })));
  const found = h("span", { class: "found muted", role: "status" });
  const empty = h("div", { class: "notice", hidden: true });
  const clear = h("button", { type: "button", class: "quiet", text: "Clear filters", hidden: true });
  const element = h("div", { class: "overview" },
    h("h1", { class: "visually-hidden", text: "Devices of the cluster" }),
    figures,
    h("div", { class: "tools" },
      legend,
      h("div", { class: "tools-end" }, h("span", { class: "search" }, search, h("kbd", { "aria-hidden": "true", text: "/" })), types, h("label", { class: "sort" }, h("span", { text: "Sort" }), sort), clear, found),
    ),
    empty,
    map.element,
  );

  const filters = new Map();
  for (const { kind, label, meaning } of KINDS) {
    const button = h("button", { type: "button", class: "chip", title: meaning, "aria-pressed": "false", on: { click: () => toggle(memory.kinds, kind) } },
      swatch(kind), h("span", { text: label }), h("b", { text: "0" }));
    filters.set(kind, button);
    legend.append(button);
  }
  for (const type of ["gpu", "rdma", "fpga"]) {
    const button = h("button", { type: "button", "aria-pressed": "false", on: { click: () => toggle(memory.types, type) } }, typeSwatch(type), TYPES[type]);
    filters.set(type, button);
    types.append(button);
  }

  function toggle(set, value) {
    if (!set.delete(value)) set.add(value);
    draw();
  }

  search.addEventListener("input", () => {
    memory.text = search.value;
    draw();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      map.focus();
    }
  });
  sort.addEventListener("change", () => {
    memory.sort = sort.value;
    draw();
  });
  clear.addEventListener("click", () => {
    reset();
    search.focus();
  });

  function reset() {
    memory.text = search.value = "";
    memory.kinds.clear();
    memory.types.clear();
    draw();
  }

  function filtered() {
    const terms = memory.text.toLowerCase().split(/\s+/).filter(Boolean);
    const byDevice = memory.kinds.size > 0 || memory.types.size > 0;
    const entries = store.all().filter(({ node, summary }) =>
      terms.every((term) => summary.text.includes(term)) && (!byDevice || node.devices.some((device) => device.type !== "rdma-vf" && matches(device, node, memory))));
    const { compare } = SORTS[memory.sort];
    return memory.sort === "name" ? entries : entries.sort((a, b) => compare(a, b) || byName(a.node.name, b.node.name));
  }

  function drawSums() {
    const sum = totals(store.all());
    const gpus = sum.types.gpu ?? { free: 0, total: 0 };
    const nics = sum.types.rdma ?? { free: 0, total: 0 };
    const fpgas = sum.types.fpga;
    const items = [
      ["Nodes ready", count(sum.ready), `of ${count(sum.nodes)}`, sum.ready < sum.nodes && "warn"],
      ["GPUs free", count(gpus.free), `of ${count(gpus.total)}`],
      sum.core.total > 0 && ["Core used", percent(sum.core.used, sum.core.total), "of all GPUs"],
      ["Memory used", percent(sum.memory.used, sum.memory.total), `of ${bytes(sum.memory.total)}`],
      ["NICs free", count(nics.free), `of ${count(nics.total)}`],
      fpgas && ["FPGAs free", count(fpgas.free), `of ${count(fpgas.total)}`],
      ["Unhealthy", count(sum.kinds.unhealthy ?? 0), sum.degraded ? `${count(sum.degraded)} degraded` : "devices", sum.kinds.unhealthy && "bad"],
      ["Pending claims", pending.number === null ? "–" : count(pending.number), "", null, place("claims")],
    ].filter(Boolean);
    figures.replaceChildren(...items.map(([name, value, more, tone, href]) => h("div", { class: tone ? `figure ${tone}` : "figure" },
      h("dt", { text: name }),
      h("dd", {}, href ? h("a", { href, text: value }) : h("b", { text: value }), " ", more && h("span", { text: more })))));
    for (const { kind } of KINDS) setText(filters.get(kind).lastChild, count(sum.kinds[kind] ?? 0));
    for (const type of ["gpu", "rdma", "fpga"]) filters.get(type).hidden = !sum.types[type] || Object.keys(sum.types).length < 2;
  }

  function draw() {
    drawSums();
    const entries = filtered();
    const asked = memory.kinds.size > 0 || memory.types.size > 0;
    for (const [value, button] of filters) button.setAttribute("aria-pressed", String(memory.kinds.has(value) || memory.types.has(value)));
    map.show(entries, memory);
    setText(found, entries.length === store.size ? counted(store.size, "node") : `${count(entries.length)} of ${counted(store.size, "node")}`);
    clear.hidden = !asked && !memory.text;
    empty.hidden = entries.length > 0;
    if (store.size === 0) empty.replaceChildren(h("h2", { text: "No devices yet" }), h("p", { text: "No node has told of GPUs, NICs or FPGAs. Where Rootport's kubelet plugin runs, its node appears here by itself." }), h("pre", { text: "kubectl get pods -n rootport-system -o wide" }));
    else if (!entries.length) empty.replaceChildren(h("h2", { text: "Nothing matches" }), h("p", { text: "No node has a device that is what the filters ask for." }));
  }

  let frame = 0;
  const waiting = new Set();
  function onChange({ detail: { what, name, before } }) {
    if (what === "node") tellTrouble(before, store.get(name).node);
    waiting.add(what === "node" ? name : null);
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      // A sorted or filtered list may have to be made anew for every change.
      if (waiting.has(null) || memory.sort !== "name" || memory.text || memory.kinds.size || memory.types.size) {
        for (const item of waiting) if (item) map.update(item);
        draw();
      } else {
        for (const item of waiting) map.update(item);
        drawSums();
      }
      waiting.clear();
    });
  }

  store.addEventListener("change", onChange);
  pending.addEventListener("change", drawSums);
  draw();
  return {
    element,
    title: "Devices",
    shown: () => {
      scrollTo(0, memory.scroll);
      if (!visited.node) return;
      map.focusOn(visited.node, visited.device);
      visited.node = "";
    },
    escape: () => {
      if (!clear.hidden) reset();
    },
    search: () => search.focus(),
    leave: () => {
      memory.scroll = scrollY;
      store.removeEventListener("change", onChange);
      pending.removeEventListener("change", drawSums);
      cancelAnimationFrame(frame);
      map.leave();
    },
  };
}

function tellTrouble(before, node) {
  const old = new Map(before.devices.map((device) => [device.name, device.state]));
  const changed = node.devices.filter((device) => old.has(device.name) && old.get(device.name) !== device.state && [device.state, old.get(device.name)].includes("Unhealthy"));
  if (changed.length) announce(changed.map((device) => `${device.name} on ${node.name} is ${device.state.toLowerCase()}${device.reason ? `: ${device.reason}` : ""}`).join("; "));
}
