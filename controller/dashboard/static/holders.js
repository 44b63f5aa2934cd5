// Which claims have devices of a node, and which of them have a GPU and a NIC.

import { byName, quantity } from "./format.js";

const HUES = 12;

/**
 * The claims that have devices, by name. Each has a letter and a hue, so that colour is never alone, and says whether it
 * is joint: whether it has devices of several types. Claims that share a device differ in hue while there are enough.
 */
export function holdersOf(devices) {
  const claims = new Map();
  for (const { spec, status } of devices) {
    for (const item of status?.allocations ?? []) {
      const claim = claims.get(item.uid) ?? { uid: item.uid, namespace: item.namespace, name: item.claim, pods: new Map(), devices: new Map(), isolation: new Set() };
      claims.set(item.uid, claim);
      const whole = wholeName(spec);
      const parts = claim.devices.get(whole) ?? { type: spec.type, items: [] };
      parts.items.push(item);
      claim.devices.set(whole, parts);
      for (const pod of item.pods ?? []) claim.pods.set(pod.uid, pod);
      if (item.isolation) claim.isolation.add(item.isolation.state);
    }
  }
  const sorted = [...claims.values()].sort((a, b) => byName(a.namespace, b.namespace) || byName(a.name, b.name));
  sorted.forEach((claim, at) => {
    claim.letter = letter(at);
    claim.order = at;
    claim.hue = hue(claim, sorted.slice(0, at));
    const kinds = new Set([...claim.devices.values()].map(({ type }) => (type === "rdma-vf" ? "rdma" : type)));
    claim.joint = kinds.has("rdma") && kinds.size > 1;
  });
  return new Map(sorted.map((claim) => [claim.uid, claim]));
}

/** The claim's turn, or the next hue that no claim before it has on a device of its own. */
function hue(claim, before) {
  const near = before.filter((other) => [...other.devices.keys()].some((device) => claim.devices.has(device)));
  const taken = new Set(near.map((other) => other.hue));
  for (let step = 0; step < HUES; step += 1) {
    const wanted = (before.length + step) % HUES;
    if (!taken.has(wanted)) return wanted;
  }
  return before.length % HUES;
}

/** What is allocated of a device, in the order of the claims' letters. */
export function allocationsOf({ status }, holders) {
  const order = (item) => holders.get(item.uid)?.order ?? Infinity;
  return [...(status?.allocations ?? [])].sort((a, b) => order(a) - order(b));
}

/** What part of a device, 0 to 1, each claim has: by memory, else by core, bandwidth or VFs, else all alike. */
export function sharesOf(device, holders) {
  const items = allocationsOf(device, holders);
  const capacity = device.status?.capacity ?? {};
  const memory = quantity(capacity.memory);
  const bandwidth = quantity(capacity.bandwidth);
  const parts = items.map((item) => {
    if (memory && item.memory) return quantity(item.memory) / memory;
    if (capacity.core && item.core) return item.core / capacity.core;
    if (bandwidth && item.bandwidth) return quantity(item.bandwidth) / bandwidth;
    if (capacity.vfs) return 1 / capacity.vfs;
    return null;
  });
  const known = parts.reduce((sum, part) => sum + (part ?? 0), 0);
  const unknown = parts.filter((part) => part === null).length;
  return items.map((item, at) => ({ item, part: Math.min(parts[at] ?? Math.max(1 - known, 0) / unknown, 1) }));
}

function wholeName(spec) {
  return spec.parent ?? spec.deviceName;
}

/** A, B, ... Z, AA, AB, ... */
function letter(at) {
  return at < 26 ? String.fromCharCode(65 + at) : letter(Math.floor(at / 26) - 1) + letter(at % 26);
}
