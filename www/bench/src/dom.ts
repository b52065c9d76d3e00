// Small helpers around the DOM.

type Attributes = Record<string, string | number | boolean>;

/** The element with this id, which the page must have. */
export function byId<T extends HTMLElement = HTMLElement>(id: string, kind?: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof (kind ?? HTMLElement))) throw new Error(`the page has no ${kind?.name ?? "element"} #${id}`);
  return found as T;
}

function fill<T extends Element>(element: T, attributes: Attributes, children: (Node | string)[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** An element with attributes and children. */
export function el<K extends keyof HTMLElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element with attributes and children. */
export function svg<K extends keyof SVGElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
