// What a device's cell shows: one of six kinds, each with a colour, a pattern and a word of its own.

import { bits, bytes } from "./format.js";

/** In the order of the legend. `mark` stands in the cell, so that nobody needs to see colours. */
export const KINDS = [
  { kind: "free", label: "Free", meaning: "All of it can be given." },
  { kind: "partly", label: "Partly used", meaning: "Given in shares or partitions; more fits." },
  { kind: "used", label: "In use", meaning: "Nothing of it is left." },
  { kind: "fragmented", label: "Fragmented", mark: "F", meaning: "There is room, but no single claim can get all of it." },
  { kind: "unhealthy", label: "Unhealthy", mark: "×", meaning: "It has a fault and is not given." },
  { kind: "away", label: "Not on offer", mark: "–", meaning: "Left out of the ResourceSlices, given out by another system, or its node is silent or can prepare no claim." },
];

export const LABELS = Object.fromEntries(KINDS.map((item) => [item.kind, item.label]));
export const MARKS = Object.fromEntries(KINDS.map((item) => [item.kind, item.mark ?? ""]));

export const TYPES = { gpu: "GPU", rdma: "NIC", "rdma-vf": "VF", fpga: "FPGA", mig: "MIG" };

// An H100 in seven 1g.10gb partitions has an eighth of its memory left that no partition can have: that is not
// fragmentation.
const STRANDED = 0.15;

/** How full it is, 0 to 1: by what is used most. */
export function fullness(device) {
  const shares = [device.core, device.memory, device.vfs, device.bandwidth].filter((amount) => amount && amount[1] > 0);
  const most = Math.max(0, ...shares.map(([used, total]) => used / total));
  return shares.length === 0 || (most === 0 && device.mode === "whole") ? (device.holders ? 1 : 0) : Math.min(most, 1);
}

/** Whether nothing of a node's devices can be given: as driver/status/overview.py's is_available. */
export function isAway(node) {
  return node.state === "Silent" || Boolean(node.cannotPrepare);
}

/** The kind of a device in the overview. */
export function kindOf(device, node) {
  if (device.state === "Unhealthy") return "unhealthy";
  if (device.offered === false) return "away";
  const full = fullness(device);
  const taken = full > 0 || (device.holders ?? 0) > 0;
  if (!taken) return isAway(node) || device.hasRival ? "away" : "free";
  if (device.mode === "whole") return "used";
  if (stranded(device) > STRANDED) return "fragmented";
  return full >= 0.995 ? "used" : "partly";
}

/** The part of the memory that is free, and that no one claim can get. */
function stranded(device) {
  if (!device.memory || !device.memory[1]) return 0;
  const [used, total] = device.memory;
  return (total - used - (device.freeMemory ?? 0)) / total;
}

export function isDegraded(device) {
  // What is Unknown has a reason as well, such as NotWatched.
  return device.state === "Healthy" && Boolean(device.reason);
}

/** Whether a Device object, or parts of it, are in a ResourceSlice: as driver/status/overview.py's is_offered. */
export function isOffered({ spec, status }) {
  return !spec.leftOut || Boolean(status?.allocatable?.core || status?.allocatable?.vfs || status?.allocations?.length);
}

/** What a pointer or a screen reader is told of a device, as lines. */
export function deviceLines(device, node) {
  const kind = kindOf(device, node);
  const lines = [`${device.name}${device.model ? ` · ${device.model}` : ""}`];
  const how = device.mode && device.mode !== "whole" ? `, by ${MODES[device.mode] ?? device.mode}` : "";
  lines.push(`${LABELS[kind]}${how}${device.reason ? ` · ${device.reason}` : ""}`);
  if (device.state === "Unknown") lines.push(node.state === "Silent" ? "Health is not known" : "Health is not watched");
  if (device.core) lines.push(`Core ${device.core[0]}% of ${device.core[1]}%`);
  if (device.memory) lines.push(`Memory ${bytes(device.memory[0])} of ${bytes(device.memory[1])}`);
  if (device.vfs) lines.push(`VFs ${device.vfs[0]} of ${device.vfs[1]}`);
  if (device.bandwidth) lines.push(`Bandwidth ${bits(device.bandwidth[0])} of ${bits(device.bandwidth[1])}`);
  if (kind === "partly" || kind === "fragmented") {
    const most = [device.freeProfile, device.freeMemory && bytes(device.freeMemory), device.freeCore && `${device.freeCore}% core`];
    lines.push(`Most for one more claim: ${most.filter(Boolean).join(", ") || "nothing"}`);
  }
  if (device.holders) lines.push(device.holders === 1 ? "1 claim has it" : `${device.holders} claims have it`);
  return lines;
}

export const MODES = { whole: "the whole", shared: "shares", ratio: "percent", mig: "MIG partitions" };
