"use strict";
// Making elements and writing numbers. Text enters the page through textContent and createTextNode alone.

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function shape(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function number(x, digits = 4) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return String(x);
  const size = Math.abs(x);
  if (size >= 1e6 || (size < 1e-4 && size > 0)) return x.toExponential(digits - 2);
  return String(Number(x.toPrecision(digits)));
}

function download(name, text, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function labelled(text, control) {
  return element("label", {}, element("span", {}, text), control);
}

function choice(options, chosen, change) {
  const select = element("select", { onchange: () => change(select.value) });
  for (const [value, text] of options) select.append(element("option", { value, selected: value === chosen }, text));
  return select;
}

// Colours of the theme, for what is drawn and not styled.
function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function palette(dark) {
  return dark
    ? { ink: "#d9dce1", faint: "#8b929c", grid: "#2c323b", back: "#14171c" }
    : { ink: "#22262b", faint: "#5c6570", grid: "#e4e7eb", back: "#ffffff" };
}

function channels(colour) {
  return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
}

function luminance(colour) {
  const [r, g, b] = channels(colour).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// A policy keeps its colour; on a dark ground it is lightened until it can be seen.
function visible(colour, dark) {
  if (!/^#[0-9a-f]{6}$/i.test(colour)) return dark ? "#cccccc" : "#333333";
  let seen = colour;
  for (let step = 1; dark && step <= 10 && (luminance(seen) + 0.05) / (luminance("#14171c") + 0.05) < 4; step++) {
    seen = "#" + channels(colour).map((c) => Math.round(c + (235 - c) * step * 0.1).toString(16).padStart(2, "0")).join("");
  }
  return seen;
}
