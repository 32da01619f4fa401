"use strict";
// Elements of HTML and SVG, and the tooltip below the mouse.

function append(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function html(tag, attributes, ...children) {
  return append(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return append(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// What an element says when the mouse is on it: a function that returns lines.
const tips = new WeakMap();

function tell(element, lines) {
  tips.set(element, lines);
  return element;
}

function told(element) {
  for (; element; element = element.parentElement) if (tips.has(element)) return tips.get(element);
  return null;
}

document.addEventListener("pointermove", (event) => {
  const tip = document.getElementById("tip"), lines = told(event.target);
  tip.hidden = !lines;
  if (!lines) return;
  const [title, ...others] = lines().filter((line) => line);
  tip.replaceChildren(html("b", {}, title), ...others.map((line) => html("div", {}, line)));
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const below = event.clientY + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below + height < innerHeight ? below : event.clientY - height - 12}px`;
});
