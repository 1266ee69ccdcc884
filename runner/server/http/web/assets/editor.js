// The one island: an editor in place of a textarea, and rows that are scored while one types.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const DEBOUNCE = 250;
const GONE = "The server does not answer; see whether `evalcell serve` still runs, then try again.";
const { root } = document.documentElement.dataset;  // the path that the server is at
const area = document.querySelector("textarea[data-editor]");
const form = area.form;
const tried = document.querySelector("#tried");
const status = document.querySelector("#try-status");

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword, tags.operatorKeyword, tags.definitionKeyword, tags.moduleKeyword], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta], color: "var(--dim)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--lost)" },
  { tag: [tags.className, tags.typeName], color: "var(--plain)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);
const look = EditorView.theme({
  "&": { backgroundColor: "var(--card)", color: "var(--text)", fontSize: ".875rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-content, .cm-gutter": { minHeight: "26rem" },
  ".cm-gutters": { backgroundColor: "var(--soft)", color: "var(--dim)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--plain-soft) 55%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--plain-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-diagnostic": { borderLeftColor: "var(--bad)" },
  // CodeMirror's own are pictures in its styles, which the policy does not let in.
  ".cm-lint-marker-error": { content: "''", width: ".625rem", height: ".625rem", marginTop: ".3rem", borderRadius: "50%", background: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  ".cm-matchingBracket": { backgroundColor: "var(--warn-soft)" },
});

const grammar = new Compartment();
const grammars = { python: () => python(), typescript: () => javascript({ typescript: true }) };
const SUFFIXES = { py: "python", ts: "typescript", js: "typescript", mjs: "typescript", cjs: "typescript", json: "typescript" };
const language = () => form.elements.language?.value || "python";
/** The file that is in the editor by its path; "": the script. */
let current = "";
/** What is wrong with the script, as of the last try. */
let problems = [];
const spoken = () => (current ? SUFFIXES[current.split(".").pop()] : language());
const chosen = () => [grammars[spoken()]?.() ?? [], indentUnit.of(spoken() === "python" ? "    " : "  ")];

const FILE = "file:";
const tabs = form.querySelector("[data-tabs]");
const block = form.querySelector("[data-files]");
const fields = () => [...form.querySelectorAll(`textarea[name^="${FILE}"]`)];
const fieldOf = (name) => (name ? fields().find((field) => field.name === FILE + name) : area);
const begun = stateOf();
restore();

// Where text replaces a selection, the browser's own editing writes style attributes, which the policy reports.
const replacing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (event.inputType !== "insertText" || !event.data || (empty && !event.data.includes("\n"))) return false;
    event.preventDefault();
    const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    const handled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, insert));
    if (!handled) view.dispatch(insert());
    return true;
  },
});

const states = new Map();
const fresh = (text) =>
  EditorState.create({
    doc: text,
    extensions: [
      EditorView.cspNonce.of(document.querySelector("meta[name=style-nonce]").content),
      [lineNumbers(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion(), highlightActiveLine()],
      [syntaxHighlighting(colours), look, grammar.of(chosen()), EditorState.tabSize.of(4), replacing],
      keymap.of([{ key: "Mod-Enter", run: () => (attempt(), true) }, { key: "Mod-s", run: () => (form.querySelector("[data-save]")?.click(), true) }]),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": current || "Script", tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        fieldOf(current).value = update.state.doc.toString();
        soon();
      }),
    ],
  });

const view = new EditorView({ state: fresh(area.value) });
area.after(view.dom);
area.hidden = true;
block.hidden = true;  // its fields stay, and the tabs are of them
tabs.hidden = false;
showTabs();
addEventListener("beforeunload", (event) => {
  if (stateOf() !== begun && !form.dataset.leaving) event.preventDefault();
});

/** The script and its files, to be compared. */
function stateOf() {
  return JSON.stringify([area, ...fields()].map((field) => [field.name, field.value]));
}

/** Shows a file in the editor, or the script; what was typed, and its history, stays with each. */
function open(name) {
  states.set(current, view.state);
  current = name;
  view.setState(states.get(name) ?? fresh(fieldOf(name).value));
  mark(problems);
  showTabs();
}

function button(text, act, more = {}) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
  made.addEventListener("click", act);
  return made;
}

/** A tab for the script and for each file, one more to add a file, and a way to take out the one that is shown. */
function showTabs() {
  const names = fields().map((field) => field.name.slice(FILE.length));
  const tab = (name) => button(name || "script", () => (open(name), view.focus()), { "aria-pressed": String(name === current), title: name || "the script" });
  tabs.replaceChildren(...["", ...names].map(tab), button("+ file", askName, { "aria-label": "Add a file" }));
  if (current) tabs.append(button("Take it out", takeOut, { "aria-label": `Take ${current} out` }));
}

function askName() {
  const field = Object.assign(document.createElement("input"), { maxLength: 200, placeholder: "helper.py" });
  field.setAttribute("aria-label", "Path of the new file");
  const add = () => {
    const name = field.value.trim().replace(/^\.\//, "");
    if (!name) return showTabs();
    if (!fieldOf(name)) addFile(name, "");
    open(name);
    view.focus();
    soon();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault(), add();
    if (event.key === "Escape") showTabs();
  });
  tabs.replaceChildren(...[...tabs.children].filter((each) => each.matches("[aria-pressed]")), field, button("Add", add));
  field.focus();
}

function addFile(name, text) {
  const field = Object.assign(document.createElement("textarea"), { name: FILE + name, hidden: true });
  field.value = text;
  block.append(field);
}

function takeOut() {
  const gone = fieldOf(current);
  states.delete(current);
  const [name, box] = [current, gone.closest("[data-file]")];
  open("");
  states.delete(name);
  (box ?? gone).remove();
  showTabs();
  soon();
}

form.addEventListener("submit", (event) => {
  if (event.submitter?.matches("[data-try]")) {
    event.preventDefault();
    attempt();
  } else form.dataset.leaving = "1";
});
for (const field of form.querySelectorAll("[data-again]"))
  field.addEventListener("change", () => {
    if (field.name === "language" && !current) view.dispatch({ effects: grammar.reconfigure(chosen()) });
    soon();
  });

/** A script that was dropped on another page; it was never on the server. */
function restore() {
  const kept = sessionStorage.getItem("evalcell-draft");
  if (!kept || !new URLSearchParams(location.search).has("draft")) return;
  const draft = JSON.parse(kept);
  area.value = draft.source;
  for (const [name, text] of Object.entries(draft.files ?? {})) addFile(name, text);
  form.elements.language.value = draft.language;
  form.elements.name.value = draft.file.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 64);
  document.querySelector("h1").textContent = form.elements.name.value;
  document.title = `${form.elements.name.value} · evalcell`;
}

/** Sends the form; the reply is the part of a page alone. */
const send = (path, part, signal) =>
  fetch(root + path, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Evalcell": "1", "X-Evalcell-Part": part }, signal });

let timer, running;
function soon() {
  clearTimeout(timer);
  timer = setTimeout(attempt, DEBOUNCE);
}

/** Scores the rows with the script as it stands. A newer try ends the older one, and with it its script. */
async function attempt() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  tried.setAttribute("aria-busy", "true");
  const begun = performance.now();
  const waiting = setInterval(() => {
    const seconds = Math.round((performance.now() - begun) / 1000);
    const why = seconds < 4 ? "" : "; a sandbox is made ready the first time, or the script is slow";
    if (mine === running) status.textContent = `scoring for ${seconds} s${why}`;
  }, 1000);
  try {
    const reply = await send("/evaluators/try", "tried", mine.signal);
    const wait = Number(reply.headers.get("Retry-After"));
    if (reply.status === 401) return location.assign(`${root}/login?next=${encodeURIComponent(location.pathname.slice(root.length))}`);
    const html = await reply.text();
    if (mine !== running) return;
    // The server's own template, in which everything of a script is escaped.
    tried.innerHTML = html;
    status.textContent = reply.ok ? `${Math.round(performance.now() - begun)} ms` : "";
    mark(problems = JSON.parse(tried.querySelector("[data-problems]")?.dataset.problems || "[]"));
    if (wait) timer = setTimeout(attempt, wait * 1000);
  } catch (error) {
    if (error.name === "AbortError") return;
    tried.textContent = GONE;
    mark(problems = []);
  } finally {
    clearInterval(waiting);
    if (mine === running) tried.setAttribute("aria-busy", "false");
  }
}

/** Marks lines and columns, which count from 1; a place outside the script becomes the nearest inside. */
function mark(problems) {
  const { doc } = view.state;
  const found = (current ? [] : problems).map(({ line, column, message }) => {
    const at = doc.line(Math.min(Math.max(line || 1, 1), doc.lines));
    const from = Math.min(at.from + Math.max((column || 1) - 1, 0), at.to);
    const word = view.state.wordAt(from);
    const to = word && word.from <= from ? word.to : column ? Math.min(from + 1, at.to) : at.to;
    return { from: Math.min(from, to), to: Math.max(from, to), severity: "error", message };
  });
  view.dispatch(setDiagnostics(view.state, found));
}

/** The header's form: the server writes the fields into the script's header. */
const apply = form.querySelector("[data-header]");
apply?.addEventListener("click", async (event) => {
  event.preventDefault();
  const place = form.querySelector("#header-said");
  const reply = await send("/evaluators/header", "source").catch(() => new Response(GONE, { status: 503 }));
  const text = await reply.text();
  place.hidden = reply.ok;
  place.textContent = reply.ok ? "" : text;
  if (reply.ok && current) open("");
  if (reply.ok) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
});

if (area.value.trim()) attempt();
