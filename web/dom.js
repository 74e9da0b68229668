// Elements from code. Text is set as text only, so nothing that a server says can become markup.

export const byId = id => document.getElementById(id);

// make('td', {class: 'bad', text: '98 %'}, child, ...)
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

const svgSpace = 'http://www.w3.org/2000/svg';
export function draw(tag, properties = {}, ...children) {
  const element = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'text') element.textContent = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Changes text and attributes only where they differ: what a screen reader announces stays still.
export function setText(element, text) { if (element.textContent !== text) element.textContent = text; }
export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// The twelve colours of services, by their order in the services file: the same on every page.
export const colourOf = service => `var(--s${service % 12})`;
