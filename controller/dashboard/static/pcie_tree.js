// A node's devices where they hang: NUMA node, root complex, switch.

import { h } from "./dom.js";
import { byName, percent, quantity } from "./format.js";
import { sharesOf } from "./holders.js";
import { isOffered, TYPES } from "./kinds.js";

/** The types in their order; each begins a row. */
const ORDER = ["gpu", "mig", "rdma", "rdma-vf", "fpga"];
const PIECES = 4;
const MOST_COLUMNS = 4;

/** `[{numa, roots: [{root, switches: [{bus, devices}]}]}]`, each in order; VFs stand under their NIC. */
export function grouped(devices) {
  const numas = new Map();
  for (const device of devices) {
    const { spec } = device;
    if (spec.parent) continue;
    const roots = below(numas, spec.numaNode ?? null);
    const switches = below(roots, spec.pcieRoot ?? "");
    const members = switches.get(spec.pcieSwitch ?? "") ?? [];
    members.push({ device, vfs: devices.filter((item) => item.spec.parent === spec.deviceName) });
    switches.set(spec.pcieSwitch ?? "", members);
  }
  return sorted(numas).map(([numa, roots]) => ({
    numa,
    roots: sorted(roots).map(([root, switches]) => ({
      root,
      switches: sorted(switches).map(([bus, members]) => ({
        bus,
        members: members.sort((a, b) => ORDER.indexOf(a.device.spec.type) - ORDER.indexOf(b.device.spec.type) || a.device.spec.index - b.device.spec.index),
      })),
    })),
  }));
}

function below(map, key) {
  if (!map.has(key)) map.set(key, new Map());
  return map.get(key);
}

function sorted(map) {
  return [...map].sort(([a], [b]) => byName(String(a ?? "~"), String(b ?? "~")));
}

export function tree(devices, holders, { selected, onSelect }) {
  const card = (member) => deviceCard(member, holders, selected, onSelect);
  return h("ul", { class: "tree", "aria-label": "PCIe tree" }, grouped(devices).map(({ numa, roots }) =>
    h("li", { class: "numa" },
      h("h2", { class: "tree-label", text: numa === null ? "NUMA node not told" : `NUMA node ${numa}` }),
      h("ul", {}, roots.map(({ root, switches }) =>
        withColumns(switches, h("li", { class: "root" },
          h("h3", { class: "tree-label" }, "Root ", h("code", { text: root || "not told" })),
          h("ul", { class: "switches" }, switches.map(({ bus, members }) =>
            h("li", { class: bus ? "switch" : "switch none" },
              h("h4", { class: "tree-label" }, bus ? ["Switch ", h("code", { text: bus })] : "No shared switch"),
              h("ul", { class: "cards" }, members.map((member, at) => h("li", { class: member.device.spec.type === members[at - 1]?.device.spec.type ? "" : "first" }, card(member))))))))))))));
}

/** Gives a root's box the room that its longest row of cards asks for, so that boxes fill a wide window. */
function withColumns(switches, box) {
  const rows = switches.flatMap(({ members }) => ORDER.map((type) => members.filter(({ device }) => device.spec.type === type).length));
  box.style.setProperty("--columns", Math.min(Math.max(...rows, 1), MOST_COLUMNS));
  return box;
}

/** Whether nothing of it can be given, though it may be well: its node can prepare no claim. */
function isWithheld(status) {
  const amounts = Object.values(status?.allocatable ?? {});
  return amounts.length > 0 && amounts.every((amount) => quantity(amount) === 0);
}

function deviceCard({ device, vfs }, holders, selected, onSelect) {
  const { spec, status } = device;
  const state = status?.state ?? "Unknown";
  const shares = sharesOf(device, holders);
  const leftOut = !isOffered(device);
  const silent = status?.conditions?.some((item) => item.type === "Healthy" && item.reason === "NodeSilent");
  const unused = silent || isWithheld(status) ? "not given" : "free";
  const claims = unique([device, ...vfs].flatMap((item) => item.status?.allocations ?? []).map((item) => holders.get(item.uid)).filter(Boolean));
  const joint = claims.filter((claim) => claim.joint);
  const condition = status?.conditions?.find((item) => item.type === "Healthy" && item.status === "False") ?? status?.conditions?.find((item) => item.type === "Degraded" && item.status === "True");
  const detail = spec.type === "gpu" ? spec.model : [spec.rdmaDevice, spec.linkSpeedGbps && `${spec.linkSpeedGbps} Gb/s`].filter(Boolean).join(" · ") || spec.model;
  const says = [TYPES[spec.type], spec.deviceName, detail, state, condition?.reason, leftOut && "not on offer", amount(status), claims.length ? `claims ${claims.map((claim) => `${claim.letter} ${claim.namespace}/${claim.name}${claim.joint ? " (joint)" : ""}`).join(", ")}` : unused];
  const bar = h("span", { class: "use", "aria-hidden": "true" }, shares.map(({ item, part }) => {
    const claim = holders.get(item.uid);
    const segment = h("span", { class: `segment hue-${claim.hue}`, data: { claim: item.uid } }, part > 0.08 && claim.letter);
    segment.style.setProperty("--part", `${part * 100}%`);
    return segment;
  }));
  const button = h("button", {
    type: "button",
    class: `device ${joint.length ? `joint hue-${joint[0].hue}` : ""} ${state === "Unhealthy" ? "unhealthy" : ""} ${leftOut ? "left-out" : ""}`,
    "aria-label": says.filter(Boolean).join(", "),
    "aria-pressed": String(selected === spec.deviceName),
    data: { device: spec.deviceName, claims: claims.map((claim) => claim.uid).join(" ") },
    on: { click: () => onSelect(spec.deviceName) },
  },
    h("span", { class: "device-head" },
      h("b", { text: spec.deviceName }),
      joint.slice(0, PIECES).map((claim) => h("span", { class: `joint-tag hue-${claim.hue}`, text: `joint ${claim.letter}` }))),
    h("span", { class: "device-detail muted", text: detail ?? "" }),
    (spec.type === "gpu" || shares.length > 0) && bar,
    h("span", { class: "device-foot muted" }, flag(condition, state, leftOut), (claims.length > 0 || !(condition || leftOut)) && h("span", { text: claims.length ? amount(status) : unused }), status?.mode && status.mode !== "whole" && h("span", { text: status.mode })));
  if (!vfs.length) return button;
  const taken = vfs.filter((vf) => vf.status?.allocations?.length);
  return [button, h("div", { class: "vfs" }, h("span", { class: "muted", text: `${taken.length} of ${vfs.length} VFs in use` }),
    h("ul", {}, vfs.sort((a, b) => a.spec.index - b.spec.index).map((vf) => {
      const claim = holders.get(vf.status?.allocations?.[0]?.uid);
      return h("li", {}, h("button", {
        type: "button",
        class: `vf ${claim ? `hue-${claim.hue} taken` : ""} ${claim?.joint ? "joint" : ""}`,
        "aria-label": `VF ${vf.spec.deviceName}, ${claim ? `claim ${claim.letter} ${claim.namespace}/${claim.name}` : "free"}`,
        "aria-pressed": String(selected === vf.spec.deviceName),
        title: vf.spec.deviceName,
        data: { device: vf.spec.deviceName, claims: claim?.uid ?? "" },
        text: claim?.letter ?? vf.spec.index,
        on: { click: () => onSelect(vf.spec.deviceName) },
      }));
    })))];
}

function flag(condition, state, leftOut) {
  if (condition) return h("span", { class: state === "Unhealthy" ? "flag bad" : "flag warn", text: `${state === "Unhealthy" ? "×" : "!"} ${condition.reason}` });
  return leftOut && h("span", { class: "flag", text: "– not on offer" });
}

function amount(status) {
  const used = quantity(status?.allocated?.memory);
  const total = quantity(status?.capacity?.memory);
  const core = status?.allocated?.core;
  if (used !== null && total) return [core !== undefined && status.capacity?.core && `${percent(core, status.capacity.core)} core`, `${percent(used, total)} memory`].filter(Boolean).join(", ");
  if (status?.allocated?.vfs && status.capacity?.vfs) return `${status.allocated.vfs} of ${status.capacity.vfs} VFs`;
  const bandwidth = quantity(status?.allocated?.bandwidth);
  const all = quantity(status?.capacity?.bandwidth);
  if (bandwidth !== null && all) return `${percent(bandwidth, all)} bandwidth`;
  return status?.allocations?.length ? "in use" : "free";
}

function unique(items) {
  return [...new Set(items)];
}
