// Asks for the token with which the API is asked.

import { h } from "./dom.js";

export function signIn(message, onToken) {
  const input = h("input", { type: "password", id: "token", name: "token", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "none", "aria-describedby": message ? "token-error token-help" : "token-help", "aria-invalid": message ? "true" : null });
  const form = h("form", { class: "sign-in" },
    h("h1", { text: "Sign in" }),
    h("p", { class: "muted", text: "See every GPU, NIC and FPGA of the cluster: what is free, who has it, what is broken." }),
    message && h("p", { class: "error", id: "token-error", role: "alert", text: message }),
    h("label", { for: "token", text: "Bearer token" }),
    input,
    h("button", { type: "submit", class: "primary", text: "Show devices" }),
    h("div", { id: "token-help", class: "help" },
      h("p", { text: "A token of somebody who may list devices.rootport.dev, such as" }),
      h("pre", { text: "kubectl create token NAME -n NAMESPACE" }),
      h("p", { text: "It stays in this tab and is gone when the tab is closed." })),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = input.value.trim().replace(/^Bearer\s+/i, "");
    // Anything else cannot stand in a header; fetch would throw.
    if (/^[\x21-\x7e]+$/.test(value)) onToken(value);
    else {
      input.setCustomValidity("A token has no spaces and no letters beyond ASCII.");
      input.reportValidity();
    }
  });
  input.addEventListener("input", () => input.setCustomValidity(""));
  return { element: form, title: "Sign in", shown: () => input.focus() };
}
