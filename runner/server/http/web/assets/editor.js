// The one island: an editor in place of a textarea, and rows that are scored while one types.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import { bracketMatching, codeFolding, foldEffect, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const DEBOUNCE = 120;  // milliseconds; a newer try ends the older one
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
  ".cm-content, .cm-gutter": { minHeight: "max(20rem, calc(100vh - 19rem))" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--plain-soft)", color: "var(--plain)", border: "0", padding: "0 .375rem", borderRadius: "4px" },
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
const DRAFT = `evalcell-draft:${root}`;
/** What is saved: the script and its files, as they came. */
let begun = stateOf();
const place = restore();

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
      [lineNumbers(), lintGutter(), codeFolding(), foldGutter({ openText: "⌄", closedText: "›" }), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion(), highlightActiveLine()],
      [syntaxHighlighting(colours), look, grammar.of(chosen()), EditorState.tabSize.of(4), replacing],
      keymap.of([{ key: "Mod-Enter", run: () => (attempt(), true) }, { key: "Mod-s", run: () => (save(), true) }]),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...foldKeymap, ...defaultKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": current || "Script", tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        fieldOf(current).value = update.state.doc.toString();
        keepDraft();
        soon();
      }),
    ],
  });

const view = new EditorView({ state: fresh(area.value) });
area.after(view.dom);
area.hidden = true;
block.hidden = true;  // its fields stay, and the tabs are of them
tabs.hidden = false;
form.querySelector("[data-try]").hidden = true;
showTabs();
foldHeader();
mark([]);
showUnsaved();

/** Folds the header, which the tab beside the script shows as a form. */
function foldHeader() {
  const { doc } = view.state;
  const lines = Array.from({ length: Math.min(doc.lines, 200) }, (_, at) => doc.line(at + 1));
  const first = lines.find((line) => /^(#|\/\/) \/\/\/ script\s*$/.test(line.text));
  const last = first && lines.find((line) => line.number > first.number && /^(#|\/\/) \/\/\/\s*$/.test(line.text));
  if (last) view.dispatch({ effects: foldEffect.of({ from: first.to, to: last.to }) });
}

/** What is typed stays in this browser until it is saved, also when the page is loaded again. */
function keepDraft() {
  const changed = stateOf() !== begun;
  const { name, language, expected } = form.elements;
  const draft = { source: area.value, files: Object.fromEntries(fields().map((field) => [field.name.slice(FILE.length), field.value])), name: name.value, language: language.value, expected: expected.value, at: place.at };
  try {
    if (changed) localStorage.setItem(place.key, JSON.stringify(draft));
    else localStorage.removeItem(place.key);
  } catch {
    // The browser keeps nothing, or has no room: the page still works.
  }
  showUnsaved();
}

function showUnsaved() {
  const changed = stateOf() !== begun;
  document.querySelector("#unsaved").hidden = !changed;
  document.title = document.title.replace(/^• /, "").replace(/^/, changed ? "• " : "");
}

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
  if (event.submitter?.matches("[data-save]")) event.preventDefault(), save();
  else if (!event.submitter || event.submitter.matches("[data-try]")) event.preventDefault(), attempt();
});
form.addEventListener("change", (event) => {
  const field = event.target;
  if (!field.matches("[data-again]")) return;
  if (field.name === "language" && !current) view.dispatch({ effects: grammar.reconfigure(chosen()) });
  if (field.name === "language") keepDraft();
  soon();
});
form.elements.name.addEventListener("input", keepDraft);
document.querySelector("#stop").addEventListener("click", stop);

/** Saves in place: the cursor, what can be undone, and the rows stay as they are. */
let saving = false;
async function save() {
  if (saving) return;
  if (!form.reportValidity()) return;
  saving = true;
  const [said, sent] = [document.querySelector("#save-said"), stateOf()];
  try {
    const reply = await send("/evaluators/save", "saved");
    if (reply.status === 401) return login();
    if (!reply.headers.get("Content-Type")?.includes("json") || !reply.ok) {
      said.innerHTML = await reply.text();  // the server's own template, in which everything is escaped
      const theirs = said.querySelector("[data-expected]");
      if (theirs) (form.elements.expected.value = theirs.dataset.expected), form.elements.fresh?.remove();
      said.scrollIntoView({ block: "nearest" });
      return;
    }
    const saved = await reply.json();
    said.replaceChildren();
    begun = sent;
    form.elements.expected.value = saved.version;
    form.elements.fresh?.remove();
    if (!form.elements.opened) form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "opened" }));
    form.elements.opened.value = saved.reference;
    localStorage.removeItem(place.key);
    sessionStorage.removeItem("evalcell-draft");
    window.history.replaceState(null, "", root + saved.address);
    document.title = `${saved.name} · evalcell`;
    Object.assign(place, { key: DRAFT + location.pathname, at: undefined });
    keepDraft();
    await showHistory();
  } catch {
    said.textContent = GONE;
  } finally {
    saving = false;
  }
}

/** The version's number in the bar, and the list of versions below: as a page of it has them. */
async function showHistory() {
  const html = await (await fetch(location.href, { headers: { "X-Evalcell": "1" } })).text();
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const id of ["version", "history"]) document.getElementById(id).replaceWith(page.getElementById(id));
  document.querySelector("h1").textContent = form.elements.name.value;
}

const login = () => location.assign(`${root}/login?next=${encodeURIComponent(location.pathname.slice(root.length))}`);

/** What was typed before, or a script that was dropped on another page; it was never on the server. */
function restore() {
  const query = new URLSearchParams(location.search);
  const fresh = query.has("draft");
  const dropped = fresh ? JSON.parse(sessionStorage.getItem("evalcell-draft") ?? "null") : null;
  const key = DRAFT + location.pathname + (location.pathname.endsWith("/new") ? `?${query.get("template") ?? ""}` : "");
  let kept = null;
  try {
    kept = JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    // Not ours.
  }
  const back = kept && kept.at === dropped?.at;
  const draft = back ? kept : dropped;
  if (draft) {
    area.value = draft.source;
    for (const field of fields()) if (!(field.name.slice(FILE.length) in (draft.files ?? {}))) (field.closest("[data-file]") ?? field).remove();
    for (const [name, text] of Object.entries(draft.files ?? {})) fieldOf(name) ? (fieldOf(name).value = text) : addFile(name, text);
    form.elements.language.value = draft.language;
    if (back || draft.name) form.elements.name.value = draft.name;
    if (back && draft.expected) form.elements.expected.value = draft.expected;
    document.querySelector("h1").textContent = form.elements.name.value;
    document.title = `${form.elements.name.value} · evalcell`;
  }
  if (back && stateOf() === begun) localStorage.removeItem(key);
  else if (back) {
    const said = document.querySelector("#save-said");
    const discard = button("Discard them", () => (localStorage.removeItem(key), location.reload()), { class: "small" });
    const note = Object.assign(document.createElement("p"), { className: "notice", textContent: "Your changes that were not saved are back. " });
    note.append(discard);
    said.append(note);
  }
  return { key, at: dropped?.at };
}

/** Sends the form; the reply is the part of a page alone. */
const send = (path, part, signal) =>
  fetch(root + path, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Evalcell": "1", "X-Evalcell-Part": part }, signal });

let timer, running;
function soon() {
  clearTimeout(timer);
  timer = setTimeout(attempt, DEBOUNCE);
}

/** Stops the script that is tried; the server ends it when it is no longer waited for. */
function stop() {
  running?.abort();
  running = undefined;
  status.textContent = "stopped";
  tried.setAttribute("aria-busy", "false");
  document.querySelector("#stop").hidden = true;
}

/** Scores the rows with the script as it stands. A newer try ends the older one, and with it its script. */
async function attempt() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  tried.setAttribute("aria-busy", "true");
  const [begun, stopper] = [performance.now(), document.querySelector("#stop")];
  const waiting = setInterval(() => {
    if (mine !== running) return;
    const seconds = Math.round((performance.now() - begun) / 1000);
    stopper.hidden = false;
    status.textContent = `scoring for ${seconds} s`;
  }, 1000);
  try {
    const reply = await send("/evaluators/try", "tried", mine.signal);
    const wait = Number(reply.headers.get("Retry-After"));
    if (reply.status === 401) return login();
    const html = await reply.text();
    if (mine !== running) return;
    show(html);
    status.textContent = reply.ok ? `${Math.round(performance.now() - begun)} ms` : "";
    mark(problems = JSON.parse(tried.querySelector("[data-problems]")?.dataset.problems || "[]"));
    if (wait) timer = setTimeout(attempt, wait * 1000);
  } catch (error) {
    if (error.name === "AbortError") return;
    tried.textContent = GONE;
    mark(problems = []);
  } finally {
    clearInterval(waiting);
    if (mine === running) tried.setAttribute("aria-busy", "false"), (stopper.hidden = true);
  }
}

/** Puts a reply in place: rows, and the questions of the mapping, in which the one that was being answered stays. */
function show(html) {
  const reply = Object.assign(document.createElement("template"), { innerHTML: html }).content;  // all of a script is escaped in it
  const [rows, questions] = ["tried", "mapping"].map((part) => reply.querySelector(`[data-part=${part}]`));
  if (!rows) return void (tried.innerHTML = html);
  tried.replaceChildren(...rows.childNodes);
  const place = document.querySelector("#mapping");
  if ("unknown" in questions.dataset && place.querySelector("select")) return;  // the script cannot be read for now
  const name = place.contains(document.activeElement) ? document.activeElement.name : "";
  const open = place.querySelector(".advanced")?.open;
  place.replaceChildren(...questions.childNodes);
  if (open) place.querySelector(".advanced")?.setAttribute("open", "");
  if (name) place.querySelector(`[name="${CSS.escape(name)}"]`)?.focus();
  const command = document.querySelector("#command");
  if (command) command.textContent = command.textContent.replace(/ (store:|DATASET).*/s, ` ${form.elements.dataset.value ? `store:${form.elements.dataset.value}${questions.dataset.words}` : "DATASET"}`);
  const address = new URL(location);
  for (const [key, value] of [["mapping", questions.dataset.mapping], ["dataset", form.elements.dataset.value]]) value ? address.searchParams.set(key, value) : address.searchParams.delete(key);
  if (address.href !== location.href) window.history.replaceState(null, "", address);
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
  const where = form.querySelector("#header-said");
  const reply = await send("/evaluators/header", "source").catch(() => new Response(GONE, { status: 503 }));
  const text = await reply.text();
  where.hidden = reply.ok;
  where.textContent = reply.ok ? "" : text;
  if (reply.ok && current) open("");
  if (reply.ok) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
});

if (area.value.trim()) attempt();
