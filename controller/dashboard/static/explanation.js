// Why a claim is pending: what the controller's explanation says (docs/user/explain.md tells the fields).

import { announce, h, place } from "./dom.js";
import { count, counted, words } from "./format.js";

const STEPS = {
  published: "Published",
  classSelector: "Of the class",
  claimSelector: "Selected by the claim",
  capacitySize: "Large enough",
  taints: "Not tainted",
  inUse: "Not in use",
  capacityLeft: "Enough left",
  counters: "Mode of the GPU allows it",
};
const WHO = {
  ChangeClaim: "Change the claim", ChangePod: "Change the pod", EndClaims: "End other claims", ChangeNode: "Change a node",
  ChangeDeviceTaint: "Repair or tolerate", CreateObject: "Create what is missing", RepairDriver: "Repair the driver", Wait: "Wait",
};

export function explanation(data) {
  const { findings, nodes } = data;
  return h("div", { class: "answer" },
    h("div", { class: data.fits ? "verdict good" : "verdict bad" },
      h("p", { class: "verdict-title", text: data.fits ? "It fits." : nodes.total > 1 ? `It fits on none of ${count(nodes.total)} nodes.` : nodes.total ? "It does not fit on the only node." : "It cannot be allocated." }),
      findings.map((finding) => h("div", { class: "finding" },
        h("span", { class: "tag", title: finding.reason, text: words(finding.reason) }),
        h("p", { text: sentence(finding.message) }),
        finding.driverFault && h("p", { class: "small muted", text: "A driver has to act here, not the claim's author." }))),
      (data.pod || data.claims.length > 1) && h("p", { class: "small muted", text: [data.pod && `For pod ${reference(data.pod)}.`, data.claims.length > 1 && `Allocated together: ${data.claims.map(reference).join(", ")}.`].filter(Boolean).join(" ") })),
    data.proposals.length > 0 && h("section", {}, h("h2", { text: "What would help" }), h("ol", { class: "proposals" }, data.proposals.map(proposal))),
    data.requests.length > 0 && h("section", {}, h("h2", { text: "Where the devices go" }), h("div", { class: "funnels" }, data.requests.map(funnel))),
    data.nodeGroups.length > 0 && h("section", {}, h("h2", { text: "Nodes by reason" }),
      h("ul", { class: "groups" }, data.nodeGroups.map((group) => h("li", {},
        h("span", { class: "group-count" }, h("b", { text: count(group.count) }), h("span", { text: group.count === 1 ? "node" : "nodes" })),
        h("div", {},
          h("p", {}, h("b", { text: words(group.reason) }), group.lacks ? ` · lacks ${counted(group.lacks, "device")}` : ""),
          h("p", { text: sentence(group.message) }),
          h("p", { class: "small" }, h("span", { class: "muted", text: "Such as " }), group.examples.map((name, at) => [at > 0 && ", ", h("a", { href: place("nodes", name), text: name })]))))))),
    (data.schedulerMessage || data.notes.length > 0) && h("section", {}, h("h2", { text: "Also" }),
      data.schedulerMessage && h("p", {}, h("span", { class: "muted", text: "kube-scheduler says: " }), data.schedulerMessage),
      data.notes.length > 0 && h("ul", { class: "plain" }, data.notes.map((note) => h("li", { text: note })))));
}

function funnel({ claim, request, deviceClassName, need, steps }) {
  const from = Math.max(1, ...steps.map(({ left }) => left));
  const wanted = need ?? 1;
  const short = steps.findIndex(({ best }) => best < wanted);
  return h("section", { class: "funnel" },
    h("h3", {}, `${claim.namespace}/${claim.name} › `, h("b", { text: request })),
    h("p", { class: "muted small", text: `${need === undefined ? "All devices" : counted(need, "device")} of class ${deviceClassName}` }),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "After" }), h("th", { "aria-hidden": "true" }), h("th", { scope: "col", class: "number", text: "Left" }), h("th", { scope: "col", text: "Best node" }))),
      h("tbody", {}, steps.map(({ step, left, best, bestNode, details }, at) => {
        const bar = h("span", { class: "meter", "aria-hidden": "true" }, h("span"));
        bar.firstChild.style.setProperty("--part", `${(100 * left) / from}%`);
        return [
          h("tr", { class: at === short ? "short" : null },
            h("th", { scope: "row", text: STEPS[step] ?? words(step) }), h("td", {}, bar), h("td", { class: "number", text: count(left) }),
            h("td", {}, best || bestNode ? [`${count(best)} `, bestNode && h("a", { href: place("nodes", bestNode), text: bestNode })] : "0", at === short && h("span", { class: "tag bad", text: "too few" }))),
          details.length > 0 && h("tr", { class: "details" }, h("td", { colspan: "4" }, details.map((text) => h("p", { text })))),
        ];
      })))));
}

function proposal(item) {
  return h("li", {},
    h("p", {}, h("span", { class: "tag", text: WHO[item.kind] ?? words(item.kind) }), " ", item.text, item.node && !item.text.includes(`node ${item.node}`) && [" on ", h("a", { href: place("nodes", item.node), text: item.node })], !item.verified && h("span", { class: "muted", text: " (not tried)" })),
    item.ends.length > 0 && h("p", { class: "small muted", text: `Ends ${item.ends.map(reference).join(", ")}${item.pods.length ? `; pods ${item.pods.map(reference).join(", ")}` : ""}` }),
    item.patches.map((patch) => h("details", {}, h("summary", { text: `Change of ${reference(patch.claim)}` }), h("pre", { text: patch.operations.map((operation) => JSON.stringify(operation)).join("\n") }))),
    item.commands.map(command));
}

function command(text) {
  const copy = h("button", { type: "button", class: "quiet", text: "Copy", "aria-label": `Copy: ${text}` });
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
    announce("Copied");
  });
  return h("div", { class: "command" }, h("pre", { text }), navigator.clipboard && copy);
}

function sentence(text) {
  // A word is made a beginning, a name is not.
  const begun = /^[a-z]+ /.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return /[.!?:]$/.test(begun) ? begun : `${begun}.`;
}

function reference({ namespace, name }) {
  return namespace ? `${namespace}/${name}` : name;
}
