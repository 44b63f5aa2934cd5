// What the page knows of the cluster: nodes as /api/v1/nodes tells them, kept up to date by events.

import { byName } from "./format.js";
import { isAway, isDegraded, kindOf } from "./kinds.js";

/** Of a node what views ask for often, counted once a change. */
function summary(node) {
  const counts = {};
  const free = { gpu: 0, rdma: 0, fpga: 0 };
  const total = { gpu: 0, rdma: 0, fpga: 0 };
  const memory = { used: 0, total: 0, free: 0, largest: 0 };
  const core = { used: 0, total: 0 };
  let degraded = 0;
  for (const device of node.devices) {
    if (device.type === "rdma-vf") continue;
    const kind = kindOf(device, node);
    (counts[device.type] ??= {})[kind] = (counts[device.type][kind] ?? 0) + 1;
    total[device.type] = (total[device.type] ?? 0) + 1;
    if (kind === "free") free[device.type] = (free[device.type] ?? 0) + 1;
    if (isDegraded(device)) degraded += 1;
    if (device.core) {
      core.used += device.core[0];
      core.total += device.core[1];
    }
    if (device.memory) {
      memory.used += device.memory[0];
      memory.total += device.memory[1];
      if (kind !== "unhealthy" && kind !== "away" && !isAway(node)) {
        memory.free += Math.max(device.memory[1] - device.memory[0], 0);
        memory.largest = Math.max(memory.largest, kind === "free" ? device.memory[1] : device.freeMemory ?? 0);
      }
    }
  }
  let text = null;
  return {
    counts,
    free,
    total,
    memory,
    core,
    degraded,
    /** What a search looks through; made when somebody searches. */
    get text() {
      text ??= [node.name, node.state, node.reason ?? "", ...node.devices.map((device) => `${device.name} ${device.model ?? ""} ${device.reason ?? ""}`)].join("\n").toLowerCase();
      return text;
    },
  };
}

export class Store extends EventTarget {
  #nodes = new Map();
  #order = null;
  version = 0;

  /** Everything anew. */
  replace({ version, nodes }) {
    this.version = version;
    this.#nodes = new Map(nodes.map((node) => [node.name, { node, summary: summary(node) }]));
    this.#order = null;
    this.#tell("all", null, null);
  }

  put(node, version) {
    const before = this.#nodes.get(node.name)?.node ?? null;
    if (!before) this.#order = null;
    this.#nodes.set(node.name, { node, summary: summary(node) });
    this.version = version ?? this.version;
    this.#tell(before ? "node" : "added", node.name, before);
  }

  remove(name, version) {
    this.version = version ?? this.version;
    if (!this.#nodes.delete(name)) return;
    this.#order = null;
    this.#tell("gone", name, null);
  }

  /** `{node, summary}` of a node, or undefined. */
  get(name) {
    return this.#nodes.get(name);
  }

  get size() {
    return this.#nodes.size;
  }

  /** All `{node, summary}`, by name. */
  all() {
    this.#order ??= [...this.#nodes.values()].map((item) => item.node.name).sort(byName);
    return this.#order.map((name) => this.#nodes.get(name));
  }

  #tell(what, name, before) {
    this.dispatchEvent(new CustomEvent("change", { detail: { what, name, before } }));
  }
}

/** The sums over all nodes. */
export function totals(entries) {
  const sum = { nodes: 0, ready: 0, memory: { used: 0, total: 0 }, core: { used: 0, total: 0 }, kinds: {}, types: {}, degraded: 0 };
  for (const { node, summary: item } of entries) {
    sum.nodes += 1;
    if (node.state === "Ready") sum.ready += 1;
    sum.degraded += item.degraded;
    sum.core.used += item.core.used;
    sum.core.total += item.core.total;
    sum.memory.used += item.memory.used;
    sum.memory.total += item.memory.total;
    for (const [type, kinds] of Object.entries(item.counts)) {
      const byType = (sum.types[type] ??= { free: 0, total: 0, kinds: {} });
      byType.total += item.total[type];
      byType.free += item.free[type] ?? 0;
      for (const [kind, number] of Object.entries(kinds)) {
        byType.kinds[kind] = (byType.kinds[kind] ?? 0) + number;
        sum.kinds[kind] = (sum.kinds[kind] ?? 0) + number;
      }
    }
  }
  return sum;
}
