// The theme button and the replay. Text from the games reaches the page as text alone.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) {
        element.setAttribute(name, value === true ? "" : value);
      }
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  // ---- theme -------------------------------------------------------------------------------
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const KEY = "mtrl-report-theme";

  function stored() {
    try { return localStorage.getItem(KEY); } catch { return null; }
  }
  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }
  function showTheme() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
  }
  const saved = stored();
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* a file may have no storage */ }
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  // ---- data --------------------------------------------------------------------------------
  const guide = JSON.parse(byId("guide").textContent);
  const blocks = [...document.querySelectorAll("script.block")];
  const BLOCK = Math.max(1, Number(byId("replay").dataset.block));
  const unpacked = new Map();

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  }
  async function detail(number) {
    const block = Math.floor(number / BLOCK);
    if (!unpacked.has(block)) unpacked.set(block, unpack(blocks[block].textContent));
    return (await unpacked.get(block))[number % BLOCK];
  }

  // ---- list of games -----------------------------------------------------------------------
  const form = byId("filters");
  const list = byId("list");
  const PAGE = 100;
  let games = [];
  let shown = [];
  let drawn = 0;
  let current = null;
  let opened = null;
  let step = 0;

  const ORDERS = {
    row: (a, b) => a.set - b.set || a.row.localeCompare(b.row, "en", { numeric: true }),
    low: (a, b) => (a.reward ?? -Infinity) - (b.reward ?? -Infinity),
    high: (a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity),
    long: (a, b) => b.turns - a.turns,
  };

  function option(value, text) {
    return make("option", { value }, text);
  }
  function fillFilters() {
    const sets = [...new Set(games.map((game) => game.set))].sort((a, b) => a - b);
    form.set.append(option("", "all"), ...sets.map((set) => option(set, guide.sets[set])));
    const faults = new Set(games.flatMap((game) => game.faults));
    const known = Object.keys(guide.faults).filter((key) => faults.has(key));
    form.fault.append(option("", "any"), ...known.map((key) => option(key, guide.faults[key])));
  }
  function matches(game) {
    const find = form.find.value.trim().toLowerCase();
    return (form.set.value === "" || game.set === Number(form.set.value))
      && (form.result.value === "" || game.solved === (form.result.value === "solved"))
      && (form.fault.value === "" || game.faults.includes(form.fault.value))
      && (find === "" || [game.row, game.answer, game.id].some((text) => text && text.toLowerCase().includes(find)));
  }
  function number(value, digits = 3) {
    if (value === null || value === undefined) return "none";
    const text = Math.abs(value).toFixed(digits);
    return (value < 0 ? "−" : "+") + text;
  }
  function entry(game) {
    const item = make("li", { role: "option", tabindex: "-1", "aria-selected": "false" },
      make("span", { class: game.solved ? "good" : "bad", "aria-hidden": "true" }, game.solved ? "✓" : "✗"),
      make("span", { class: "row" }, `${game.answer ? game.answer.toUpperCase() : game.row}, ${game.outcome} in ${game.turns}`),
      make("span", {}, number(game.reward, 2)),
      make("span", { class: "small" }, `${game.row} · ${guide.names[game.set]}`));
    item.game = game;
    return item;
  }
  function drawMore() {
    list.append(...shown.slice(drawn, drawn + PAGE).map(entry));
    drawn = Math.min(shown.length, drawn + PAGE);
    byId("more").hidden = drawn >= shown.length;
  }
  function filter() {
    shown = games.filter(matches).sort(ORDERS[form.order.value]);
    drawn = 0;
    list.replaceChildren();
    drawMore();
    byId("found").textContent = `${shown.length} of ${games.length} games`;
    byId("stage").hidden = shown.length === 0;
    if (shown.length) open(list.firstElementChild, false);
  }
  function select(item, focus) {
    for (const other of list.querySelectorAll('[aria-selected="true"]')) {
      other.setAttribute("aria-selected", "false");
      other.tabIndex = -1;
    }
    item.setAttribute("aria-selected", "true");
    item.tabIndex = 0;
    if (focus) item.focus({ preventScroll: true });
    const above = item.offsetTop - list.offsetTop;
    if (above < list.scrollTop) list.scrollTop = above;
    const below = above + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }
  async function open(item, focus) {
    select(item, focus);
    const game = item.game;
    current = game;
    const found = await detail(game.number);
    if (current !== game) return; // another was opened meanwhile
    opened = found;
    drawGame();
    show(opened.turns.length, false);
    remember(game.id);
  }
  function remember(id) {
    try { history.replaceState(null, "", `#game-${encodeURIComponent(id)}`); } catch { /* no history */ }
  }

  // ---- one game ----------------------------------------------------------------------------
  function fact(name, value, kind = "value") {
    return make("div", {}, make("span", { class: "name" }, name), make("span", { class: `value ${kind}` }, value));
  }
  function drawGame() {
    const game = current;
    byId("facts").replaceChildren(
      fact("Row", game.row),
      fact("Answer", game.answer ? game.answer.toUpperCase() : "not known here"),
      fact("Reward", number(game.reward)),
      fact("Outcome", `${game.outcome}${game.stop === "done" ? "" : `, ${game.stop.replace(/_/g, " ")}`}`),
      fact("Set", guide.sets[game.set]),
      fact("Time", `${game.seconds.toFixed(1)} s${game.attempts > 1 ? `, ${game.attempts} attempts` : ""}`),
      fact("Trajectory", game.id, "id"),
      ...(game.failure ? [fact("Failure", game.failure, "bad")] : []),
    );
    const turns = opened.turns.length;
    byId("ticks").replaceChildren(...Array.from({ length: turns }, (_, i) => {
      const tick = make("button", { type: "button", "aria-label": `Turn ${i + 1}` }, String(i + 1));
      tick.addEventListener("click", () => show(i + 1, true));
      return make("li", {}, tick);
    }));
    const board = opened.board;
    document.querySelector(".scene").classList.toggle("plain", !board);
    byId("board").hidden = byId("legend").hidden = !board;
  }
  function rowsAt(turn) {
    const rows = new Map(); // row -> turn in which it was played
    opened.turns.slice(0, turn).forEach((played, i) => {
      for (const move of played.moves) if (move.row !== null) rows.set(move.row, i + 1);
    });
    return rows;
  }
  function drawBoard() {
    const rows = rowsAt(step);
    const placed = rowsAt(opened.turns.length).size;
    const width = opened.board.length ? opened.board[0][0].length : 5;
    const count = Math.max(6, opened.board.length);
    byId("board").replaceChildren(...Array.from({ length: count }, (_, row) => {
      // Moves that cannot be told apart show the whole board at the last turn.
      const turn = rows.get(row) ?? (placed === 0 && step === opened.turns.length && row < opened.board.length ? step : null);
      if (turn === null) {
        return make("div", { class: "word", "aria-hidden": "true" },
          ...Array.from({ length: width }, () => make("span", { class: "tile" })));
      }
      const [word, marks] = opened.board[row];
      const spoken = [...word].map((letter, i) => `${letter.toUpperCase()} ${guide.marks[marks[i]]}`).join(", ");
      const line = make("button", { type: "button", class: "word", "aria-label": `Guess ${row + 1}: ${spoken}`, "aria-current": turn === step ? "step" : null },
        ...[...word].map((letter, i) => make("span", { class: turn === step ? "tile new" : "tile", "data-mark": marks[i], "aria-hidden": "true" }, letter.toUpperCase())));
      line.addEventListener("click", () => show(turn, true));
      return line;
    }));
  }
  function message(who, kind, text) {
    return make("div", { class: `message ${kind}` }, make("div", { class: "who" }, who), make("pre", {}, text));
  }
  function table(caption, values) {
    const rows = Object.entries(values).map(([name, value]) => {
      const text = typeof value === "number" ? number(value)
        : typeof value === "object" ? Object.entries(value).map(([key, n]) => `${key.replace(/_/g, " ")} ${n}`).join(", ") || "none"
          : String(value);
      return make("tr", {}, make("th", { scope: "row" }, name.replace(/_/g, " ")), make("td", {}, text));
    });
    return make("table", { class: "parts" }, make("caption", {}, caption), make("tbody", {}, ...rows));
  }
  function turnMessages(turn) {
    const found = [];
    if (turn.reasoning) {
      found.push(make("details", { class: "message policy" }, make("summary", {}, "The policy's reasoning"), make("pre", {}, turn.reasoning)));
    }
    if (turn.text) found.push(message("The policy writes", "policy", turn.text));
    for (const move of turn.moves) {
      if (!move.recovered) found.push(message("The policy calls", "policy", `${move.tool} ${move.arguments}`));
      found.push(message(move.recovered ? `The task answers (read from the text as ${move.tool})` : "The task answers", "task", move.feedback));
    }
    if (!turn.moves.length) found.push(message("No move", "task", "The answer called no tool and held no move."));
    return found;
  }
  function rewards(turn, last) {
    const tables = turn.moves.filter((move) => move.part !== null)
      .map((move) => table("Reward of this move", opened.parts[move.part]));
    if (last && Object.keys(opened.reward).length) tables.push(table("Reward of the game", opened.reward));
    if (last && !opened.turns.some((t) => t.moves.some((move) => move.part !== null))) {
      opened.parts.forEach((part, i) => tables.push(table(`Reward, part ${i + 1}`, part)));
    }
    return tables.length ? make("div", { class: "message reward-tables" }, ...tables) : null;
  }
  function show(to, focus) {
    const last = opened.turns.length;
    step = Math.max(last ? 1 : 0, Math.min(last, to));
    byId("previous").disabled = step <= 1;
    byId("next").disabled = step >= last;
    [...byId("ticks").children].forEach((item, i) => {
      const tick = item.firstElementChild;
      if (i + 1 === step) tick.setAttribute("aria-current", "step");
      else tick.removeAttribute("aria-current");
    });
    if (opened.board) drawBoard();
    const turn = opened.turns[step - 1];
    byId("turn").textContent = last ? `Turn ${step} of ${last}` : "No turn was sampled";
    byId("messages").replaceChildren(...(turn ? [
      ...turnMessages(turn),
      rewards(turn, step === last),
      make("p", { class: "n" }, `${turn.prefill.toLocaleString("en")} tokens read, ${turn.sample.toLocaleString("en")} written, ${turn.seconds} s, ended by ${turn.finish || "?"}`),
    ] : []).filter((child) => child !== null));
    if (focus && !byId("stage").contains(document.activeElement)) byId("stage").focus({ preventScroll: true });
  }

  // ---- keys and clicks ---------------------------------------------------------------------
  function keys(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !opened) return;
    if (event.target.closest("input, select, pre, summary")) return;
    const inList = event.target.closest("#list");
    const turns = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 1, End: opened.turns.length };
    if (event.key in turns && !(inList && event.key.length < 5)) {
      event.preventDefault();
      show(turns[event.key], false);
      return;
    }
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") {
      if (inList && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        byId("stage").focus({ preventScroll: false });
      }
      return;
    }
    const at = list.querySelector('[aria-selected="true"]');
    if (event.key === "ArrowDown" && at && !at.nextElementSibling) drawMore();
    const to = at && (event.key === "ArrowUp" ? at.previousElementSibling : at.nextElementSibling);
    if (!to) return;
    event.preventDefault();
    open(to, Boolean(inList));
  }

  function listen() {
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("more").addEventListener("click", drawMore);
    list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) open(item, true);
    });
    byId("previous").addEventListener("click", () => show(step - 1, true));
    byId("next").addEventListener("click", () => show(step + 1, true));
    byId("player").addEventListener("keydown", keys);
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-fault]");
      if (!link) return;
      form.reset();
      form.set.value = link.dataset.set;
      form.fault.value = link.dataset.fault;
      filter();
    });
  }
  function drawLegend() {
    byId("legend").replaceChildren(...Object.entries(guide.marks).map(([mark, meaning]) =>
      make("span", {}, make("span", { class: "tile small", "data-mark": mark, "aria-hidden": "true" }, { G: "✓", Y: "↔", X: "×" }[mark] ?? mark), meaning)));
  }
  function linked() {
    const id = decodeURIComponent(location.hash.replace(/^#game-/, ""));
    return location.hash.startsWith("#game-") ? games.find((game) => game.id === id) : undefined;
  }

  async function start() {
    games = await unpack(byId("index").textContent);
    games.forEach((game, i) => { game.number = i; });
    if (!games.length) throw new Error("no games with a trace");
    const wanted = linked();
    fillFilters();
    drawLegend();
    listen();
    if (wanted) form.find.value = wanted.id;
    byId("player").hidden = false;
    filter();
    if (wanted) byId("replay").scrollIntoView();
  }
  start().catch((error) => {
    byId("unreadable").hidden = false;
    byId("unreadable").textContent = `There is nothing to replay: ${error.message}.`;
  });
})();
