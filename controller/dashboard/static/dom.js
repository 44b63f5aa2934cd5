// Builds elements. Text only ever becomes text nodes: nothing that the API answers is read as HTML.

/**
 * An element.
 * @param {string} tag Its name.
 * @param {Object<string, unknown>} attributes Attributes; `class`, `text`, `data` and `on` are told apart; null and false
 *   are left out, true is an empty attribute.
 * @param {...(Node|string|null|undefined|false|Array)} children
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
}

/** A link to a place in this page; each part is encoded. */
export function place(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Sets text only where it differs, so that a screen reader is not told the same again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tells a screen reader. */
export function announce(text) {
  setText(document.getElementById("announcer"), text);
}
