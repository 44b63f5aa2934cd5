// All that is known of one device: health, amounts, who has it, where it is.

import { h, place } from "./dom.js";
import { ago, bits, bytes, percent, quantity } from "./format.js";
import { allocationsOf } from "./holders.js";
import { isOffered, MODES, TYPES } from "./kinds.js";

const DISTANCES = { PIX: "one switch at most", PXB: "several switches", PHB: "one host bridge", NODE: "one NUMA node", SYS: "across NUMA nodes" };

export function devicePanel(device, holders, onClose) {
  const { spec, status = {} } = device;
  const { state = "Unknown", conditions = [], allocations = [], partitions = [] } = status;
  const trouble = conditions.filter((item) => (item.type === "Healthy" && item.status !== "True") || (item.type === "Degraded" && item.status === "True"));
  const since = conditions.find((item) => item.type === "Healthy")?.lastTransitionTime;
  return h("aside", { class: "panel", data: { device: spec.deviceName }, "aria-label": `Device ${spec.deviceName}`, tabindex: "-1" },
    h("header", {},
      h("h2", { text: spec.deviceName }),
      h("span", { class: `state ${state.toLowerCase()}`, text: state }),
      h("button", { type: "button", class: "quiet close", "aria-label": "Close the device (Escape)", text: "✕", on: { click: onClose } })),
    h("p", { class: "muted", text: [TYPES[spec.type], spec.model].filter(Boolean).join(" · ") }),
    state === "Healthy" && !trouble.length && since && h("p", { class: "muted small", text: `Healthy since ${moment(since)}` }),
    trouble.map((item) => h("div", { class: item.type === "Healthy" && item.status === "False" ? "fault bad" : "fault warn" },
      h("b", { text: item.reason }),
      h("span", { class: "muted", text: `since ${moment(item.lastTransitionTime)}` }),
      h("p", { text: item.message }))),
    spec.leftOut && (isOffered(device)
      ? h("p", { class: "muted small", text: `Given in parts only: ${spec.leftOut}` })
      : h("div", { class: "fault warn" }, h("b", { text: "Not on offer" }), h("p", { text: spec.leftOut }))),
    section("Amounts", amounts(status)),
    section(allocations.length === 1 ? "Who has it" : `Who has it (${allocations.length})`, allocations.length ? allocationsOf(device, holders).map((item) => holder(item, spec, holders)) : h("p", { class: "muted", text: "Nobody." })),
    partitions.length > 0 && section("MIG partitions", table(["Profile", "Slices", "Device"], partitions.map((item) => [item.profile, item.size > 1 ? `${item.start}–${item.start + item.size - 1}` : item.start, item.device]))),
    section("Where it is", facts([
      ["PCI address", spec.pciBusID], ["Switch", spec.pcieSwitch], ["Root", spec.pcieRoot], ["NUMA node", spec.numaNode],
      ["UUID", spec.uuid], ["Architecture", spec.architecture], ["Device nodes", spec.devicePaths?.join(" ")],
      ["RDMA device", spec.rdmaDevice], ["Interfaces", spec.ifNames?.join(" ")],
      ["Link", [spec.linkType, spec.linkState, spec.linkSpeedGbps && `${spec.linkSpeedGbps} Gb/s`].filter(Boolean).join(", ")],
      ["GUID", spec.guid], ["Minor", spec.minor]])),
    spec.attributes?.length > 0 && section("Attributes of DevicePolicies", facts(spec.attributes.map((item) => [item.name, String(item.string ?? item.int ?? item.version ?? item.bool)]))),
    spec.near?.length > 0 && section("Nearest", h("ul", { class: "near" }, spec.near.map((item) => h("li", {},
      h("a", { href: place("nodes", spec.nodeName, item.name), text: item.name }), " ", h("abbr", { title: DISTANCES[item.distance] ?? "", text: item.distance }))))));
}

function section(title, content) {
  return h("section", {}, h("h3", { text: title }), content);
}

function amounts({ capacity = {}, allocatable = {}, allocated = {}, largestFree = {}, mode }) {
  const rows = [["core", "Core", (value) => `${value}%`], ["memory", "Memory", bytes], ["bandwidth", "Bandwidth", bits], ["vfs", "VFs", String]]
    .filter(([key]) => capacity[key] !== undefined)
    .map(([key, name, write]) => {
      const total = quantity(capacity[key]);
      const used = quantity(allocated[key]) ?? 0;
      const left = quantity(largestFree[key]) ?? 0;
      const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span"));
      meter.firstChild.style.setProperty("--part", percent(used, total));
      const none = allocatable[key] !== undefined && quantity(allocatable[key]) === 0;
      // A partition has the core that its profile has.
      const goesWithMemory = key === "core" && mode === "mig" && largestFree.memory !== undefined;
      return h("tr", {}, h("th", { scope: "row", text: name }), h("td", {}, meter), h("td", { class: "number", text: `${write(used)} of ${write(total)}` }), h("td", { class: "number", text: none ? "not given" : left ? write(left) : goesWithMemory ? "–" : "nothing" }));
    });
  if (!rows.length) return h("p", { class: "muted", text: "Not known." });
  return [
    h("table", { class: "amounts" }, h("thead", {}, h("tr", {}, h("th"), h("th"), h("th", { scope: "col", text: "Allocated" }), h("th", { scope: "col", text: "Left for one" }))), h("tbody", {}, rows)),
    (mode || largestFree.profile) && h("p", { class: "muted small", text: [mode && `Given as ${MODES[mode] ?? mode}.`, largestFree.profile && `Largest partition that still fits: ${largestFree.profile}.`].filter(Boolean).join(" ") })];
}

function holder(item, spec, holders) {
  const claim = holders.get(item.uid);
  const has = [item.core !== undefined && `${item.core}% core`, item.memory && bytes(quantity(item.memory)), item.bandwidth && bits(quantity(item.bandwidth))].filter(Boolean).join(", ");
  const { isolation } = item;
  return h("div", { class: `holder hue-${claim?.hue ?? 0}` },
    h("div", { class: "holder-head" },
      h("span", { class: "letter", "aria-hidden": "true", text: claim?.letter ?? "" }),
      h("b", {}, `${item.namespace}/`, h("wbr"), item.claim),
      claim?.joint && h("span", { class: "joint-tag", text: "joint" })),
    h("dl", { class: "facts" }, rows([
      ["Request", item.request + (item.device && item.shareID ? " (a share)" : "")],
      ["Part", item.device !== spec.deviceName && item.device],
      ["Amount", has],
      ["Limits", isolation && h("span", { class: isolation.state === "enforced" ? "tag good" : "tag warn", text: `${isolation.state} by ${[isolation.by, isolation.version].filter(Boolean).join(" ")}` })],
      ["Pods", item.pods?.length || item.podGroups?.length ? [(item.podGroups ?? []).map((name) => h("div", { text: `PodGroup ${name}` })), (item.pods ?? []).map((pod) => h("div", {}, pod.name, pod.containers?.length > 0 && h("span", { class: "muted", text: ` › ${pod.containers.join(", ")}` }))), item.morePods > 0 && h("div", { class: "muted", text: `and ${item.morePods} more` })] : h("span", { class: "muted", text: "none yet" })],
    ])));
}

function facts(items) {
  return h("dl", { class: "facts" }, rows(items));
}

function rows(items) {
  return items.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false).map(([name, value]) => [h("dt", { text: name }), h("dd", {}, value instanceof Node || Array.isArray(value) ? value : String(value))]);
}

function table(heads, body) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col", text })))),
    h("tbody", {}, body.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell instanceof Node || Array.isArray(cell) ? cell : String(cell ?? ""))))))));
}

function moment(text) {
  return text ? `${text.replace("T", " ").replace("Z", " UTC")} (${ago(text)})` : "an unknown time";
}
