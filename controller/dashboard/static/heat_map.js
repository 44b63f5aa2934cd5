// The heat map: a tile per node, a cell per device. Tiles are filled when they come near the window, so that the first
// view of thousands of nodes costs as much as that of fifty.

import { h, place } from "./dom.js";
import { KINDS, MARKS, TYPES, deviceLines, fullness, isDegraded, kindOf } from "./kinds.js";

/** The types in their order; each begins a row. */
const ROWS = ["gpu", "rdma", "fpga"];
const AHEAD = "600px 0px";
const COMPACT_FROM = 60;

export class HeatMap {
  #store;
  #tip;
  #tiles = new Map();
  #shown = [];
  #filled = new WeakSet();
  #observer;
  #filter = { kinds: new Set(), types: new Set() };
  #focused = null;

  constructor(store) {
    this.#store = store;
    this.#tip = document.getElementById("tip");
    this.element = h("div", {
      class: "heat-map",
      role: "grid",
      "aria-label": "Nodes and their devices. Arrow keys move, Enter opens.",
      on: {
        keydown: (event) => this.#onKey(event),
        focusin: (event) => this.#onFocus(event.target),
        focusout: () => this.#hideTip(),
        mouseover: (event) => this.#showTip(event.target.closest(".cell")),
        mouseleave: () => this.#hideTip(),
        click: (event) => this.#open(event.target.closest(".cell")),
      },
    });
    this.#observer = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.#fill(entry.target);
    }, { rootMargin: AHEAD });
  }

  /** Shows these nodes in this order; `filter` dims what does not match it. */
  show(entries, filter) {
    this.#filter = filter;
    this.element.classList.toggle("compact", entries.length > COMPACT_FROM);
    const wanted = new Set(entries.map(({ node }) => node.name));
    for (const [name, tile] of this.#tiles) {
      if (wanted.has(name)) continue;
      this.#observer.unobserve(tile);
      tile.remove();
      this.#tiles.delete(name);
    }
    this.#shown = entries.map(({ node }) => node.name);
    let before = null;
    const fresh = document.createDocumentFragment();
    for (const entry of entries) {
      let tile = this.#tiles.get(entry.node.name);
      if (tile && this.#filled.has(tile)) this.#draw(tile, entry);
      if (!tile) {
        tile = this.#make(entry);
        this.#tiles.set(entry.node.name, tile);
      }
      // Moved only where it must be: a moved element loses the focus.
      if (fresh.childNodes.length || !tile.isConnected) fresh.append(tile);
      else if ((before ? before.nextSibling : this.element.firstChild) !== tile) (before ? before.after(tile) : this.element.prepend(tile));
      if (!fresh.childNodes.length) before = tile;
    }
    this.element.append(fresh);
    this.element.setAttribute("aria-rowcount", String(entries.length));
    this.#ensureTabStop();
  }

  /** Draws one node again. */
  update(name) {
    const tile = this.#tiles.get(name);
    const entry = this.#store.get(name);
    if (!tile || !entry) return;
    this.#head(tile, entry);
    if (this.#filled.has(tile)) this.#draw(tile, entry, true);
  }

  focus() {
    (this.element.querySelector('[tabindex="0"]') ?? this.element).focus();
  }

  /** Puts the focus on a node's device, or on the node; where it is not shown, nowhere. */
  focusOn(name, device) {
    const tile = this.#tiles.get(name);
    if (!tile) return;
    this.#fill(tile);
    (stopsOf(tile).find((stop) => stop.dataset.device === device) ?? tile.children[0]).focus({ preventScroll: true });
  }

  leave() {
    this.#hideTip();
    this.#observer.disconnect();
  }

  #make(entry) {
    const tile = h("div", { class: "tile", role: "row" });
    tile.append(
      h("a", { class: "tile-name", role: "rowheader", tabindex: "-1", href: place("nodes", entry.node.name), text: entry.node.name, title: entry.node.name }),
      h("span", { class: "tile-note", role: "presentation" }),
      h("div", { class: "cells", role: "presentation" }),
    );
    tile.dataset.node = entry.node.name;
    this.#head(tile, entry);
    this.#observer.observe(tile);
    return tile;
  }

  #head(tile, { node, summary }) {
    tile.dataset.state = node.state;
    const note = tile.children[1];
    note.textContent = node.state === "Ready" ? (summary.total.gpu ? `${summary.free.gpu}/${summary.total.gpu}` : "") : node.state === "Silent" ? "silent" : "not ready";
    note.title = node.state === "Ready" ? "GPUs that are wholly free, of all" : node.reason ?? "";
  }

  #fill(tile) {
    this.#observer.unobserve(tile);
    if (this.#filled.has(tile)) return;
    const entry = this.#store.get(tile.dataset.node);
    if (!entry) return;
    this.#filled.add(tile);
    this.#draw(tile, entry);
  }

  #draw(tile, { node }, flash = false) {
    const cells = tile.children[2];
    const devices = node.devices.filter((device) => device.type !== "rdma-vf").sort((a, b) => ROWS.indexOf(a.type) - ROWS.indexOf(b.type) || a.index - b.index);
    const keys = devices.map((device) => device.name).join(" ");
    if (cells.dataset.keys !== keys) {
      const active = cells.contains(document.activeElement) ? document.activeElement.dataset.device : null;
      cells.replaceChildren(...devices.map((device, at) => h("span", { class: device.type === devices[at - 1]?.type ? "cell" : "cell first", role: "gridcell", tabindex: "-1", data: { device: device.name, type: device.type } })));
      cells.dataset.keys = keys;
      for (const cell of cells.children) if (cell.dataset.device === active) cell.focus();
    }
    devices.forEach((device, at) => this.#cell(cells.children[at], device, node, flash));
  }

  #cell(cell, device, node, flash) {
    const kind = kindOf(device, node);
    const label = deviceLines(device, node).join(", ");
    const key = `${label}|${kind}`;
    if (cell.dataset.key !== key) {
      if (flash && cell.dataset.key) {
        cell.classList.remove("changed");
        void cell.offsetWidth; // starts the animation again
        cell.classList.add("changed");
      }
      cell.dataset.key = key;
      cell.dataset.kind = kind;
      cell.dataset.mark = MARKS[kind] || (isDegraded(device) ? "!" : "");
      cell.style.setProperty("--fill", kind === "partly" || kind === "fragmented" ? `${Math.round(Math.max(fullness(device), 0.12) * 100)}%` : "0%");
      cell.setAttribute("aria-label", `${TYPES[device.type] ?? device.type} ${label}, node ${node.name}`);
    }
    cell.classList.toggle("dim", !matches(device, node, this.#filter));
  }

  #onFocus(target) {
    const stop = target.closest(".cell, .tile-name");
    if (!stop) return;
    this.#focused?.setAttribute("tabindex", "-1");
    this.#focused = stop;
    stop.setAttribute("tabindex", "0");
    this.#showTip(stop.closest(".cell"));
  }

  #ensureTabStop() {
    if (this.#focused?.isConnected) return;
    this.#focused = this.element.querySelector(".tile-name");
    this.#focused?.setAttribute("tabindex", "0");
  }

  #onKey(event) {
    const target = event.target.closest(".cell, .tile-name");
    if (!target || event.ctrlKey && !["Home", "End"].includes(event.key) || event.altKey || event.metaKey) return;
    const tile = target.closest(".tile");
    const stops = stopsOf(tile);
    const column = stops.indexOf(target);
    const row = this.#shown.indexOf(tile.dataset.node);
    const wide = this.#columns();
    const page = wide * Math.max(1, Math.floor(innerHeight / Math.max(tile.offsetHeight, 1)) - 1);
    const moves = {
      ArrowRight: () => (column + 1 < stops.length ? [row, column + 1] : [row + 1, 0]),
      ArrowLeft: () => (column > 0 ? [row, column - 1] : [row - 1, Infinity]),
      ArrowDown: () => [row + wide, column],
      ArrowUp: () => [row - wide, column],
      PageDown: () => [Math.min(row + page, this.#shown.length - 1), column],
      PageUp: () => [Math.max(row - page, 0), column],
      Home: () => (event.ctrlKey ? [0, 0] : [row, 0]),
      End: () => (event.ctrlKey ? [this.#shown.length - 1, Infinity] : [row, Infinity]),
    };
    if (event.key === "Enter" && target.matches(".cell")) this.#open(target);
    else if (moves[event.key]) this.#go(...moves[event.key]());
    else return;
    event.preventDefault();
  }

  #go(row, column) {
    const tile = this.#tiles.get(this.#shown[row]);
    if (!tile) return;
    this.#fill(tile);
    const stops = stopsOf(tile);
    stops[Math.min(column, stops.length - 1)].focus();
  }

  #columns() {
    return getComputedStyle(this.element).gridTemplateColumns.split(" ").length;
  }

  #open(cell) {
    if (cell) location.hash = place("nodes", cell.closest(".tile").dataset.node, cell.dataset.device);
  }

  #showTip(cell) {
    if (!cell) {
      this.#hideTip();
      return;
    }
    const node = this.#store.get(cell.closest(".tile").dataset.node)?.node;
    const device = node?.devices.find((item) => item.name === cell.dataset.device);
    if (!device) return;
    const [title, ...lines] = deviceLines(device, node);
    this.#tip.replaceChildren(h("strong", { text: title }), h("span", { class: "muted", text: `node ${node.name}` }), ...lines.map((line) => h("span", { text: line })));
    this.#tip.hidden = false;
    const box = cell.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.#tip;
    const top = box.bottom + 8 + height > innerHeight ? box.top - height - 8 : box.bottom + 8;
    this.#tip.style.transform = `translate(${Math.round(Math.max(8, Math.min(box.left - 8, innerWidth - width - 8)))}px, ${Math.round(Math.max(top, 8))}px)`;
  }

  #hideTip() {
    this.#tip.hidden = true;
  }
}

/** Whether a device is what the filter asks for; an empty filter asks for everything. */
export function matches(device, node, { kinds, types }) {
  return (kinds.size === 0 || kinds.has(kindOf(device, node))) && (types.size === 0 || types.has(device.type));
}

function stopsOf(tile) {
  return [tile.children[0], ...tile.children[2].children];
}

/** A cell as the buttons of the types show it. */
export function typeSwatch(type) {
  return h("span", { class: "cell swatch", "aria-hidden": "true", data: { kind: "free", type } });
}

/** A cell as the legend shows it. */
export function swatch(kind) {
  const { mark = "" } = KINDS.find((item) => item.kind === kind);
  const cell = h("span", { class: "cell swatch", "aria-hidden": "true", data: { kind, mark } });
  cell.style.setProperty("--fill", kind === "partly" || kind === "fragmented" ? "50%" : "0%");
  return cell;
}
