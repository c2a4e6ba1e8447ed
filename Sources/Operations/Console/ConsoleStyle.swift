/// The files that the browser asks for beside the pages. Nothing comes from elsewhere.
enum ConsoleStyle {
  static let css = """
    :root { color-scheme: light dark; --ink: #1b1f24; --faint: #57606a; --paper: #ffffff; --panel: #f3f5f7;
      --rule: #ccd3da; --link: #0a4fa0; --ok: #14602f; --warn: #7a4b00; --fail: #a3131d; --line: #8a94a0; }
    @media (prefers-color-scheme: dark) { :root { --ink: #e8ecf0; --faint: #a9b4bf; --paper: #14181c; --panel: #1e242a;
      --rule: #3a444e; --link: #8ec2ff; --ok: #7ad79a; --warn: #f0b95e; --fail: #ff9a9a; --line: #6d7883; } }
    * { box-sizing: border-box; }
    body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
    header { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; padding: .6rem 1.2rem;
      background: var(--panel); border-bottom: 1px solid var(--rule); }
    header p, header form { margin: 0; }
    header form { margin-left: auto; }
    nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; margin: 0; padding: 0; }
    a { color: var(--link); }
    nav a { display: inline-block; padding: .25rem 0; }
    nav a[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none; border-bottom: 3px solid var(--link); }
    main { max-width: 76rem; padding: .6rem 1.2rem 3rem; }
    h1 { font-size: 1.5rem; margin: .6rem 0; }
    h2 { font-size: 1.1rem; margin: 1.8rem 0 .5rem; }
    .skip { position: absolute; left: -100rem; }
    .skip:focus { left: .5rem; top: .5rem; background: var(--paper); padding: .5rem; z-index: 1; }
    .live { color: var(--faint); margin: 0 0 .8rem; font-size: .9rem; }
    .figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .6rem; margin: 0; }
    .figures div { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: .5rem .7rem; }
    dt { color: var(--faint); font-size: .85rem; }
    dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
    .words { font-size: .9rem; }
    .scroll { overflow-x: auto; }
    table { border-collapse: collapse; width: 100%; }
    th, td { text-align: left; vertical-align: top; padding: .4rem .7rem; border-bottom: 1px solid var(--rule); }
    thead th { color: var(--faint); font-size: .85rem; font-weight: 600; white-space: nowrap; }
    tbody th { font-weight: 600; }
    .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
    .ok { color: var(--ok); } .warn { color: var(--warn); } .fail { color: var(--fail); }
    td.fail, td.warn, dd.fail, dd.warn { font-weight: 700; }
    .notice { border: 1px solid currentColor; border-left-width: 6px; border-radius: 4px; padding: .5rem .8rem; margin: .8rem 0; }
    .panel { max-width: 34rem; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: 1rem; }
    .panel p { color: var(--faint); margin: .3rem 0 .8rem; }
    label { display: block; font-weight: 600; }
    input { font: inherit; width: 100%; padding: .4rem .5rem; color: var(--ink); background: var(--paper);
      border: 1px solid var(--line); border-radius: 4px; }
    button { font: inherit; padding: .4rem .9rem; color: var(--paper); background: var(--link); border: 0;
      border-radius: 4px; cursor: pointer; }
    button.danger { background: var(--fail); margin-top: .5rem; }
    header button { color: var(--link); background: none; border: 1px solid var(--line); }
    :focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
    .actions { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
    meter { width: 8rem; }
    code { font-size: .95em; }
    .picture { display: block; width: 100%; max-width: 760px; height: auto; margin: 1rem 0; }
    .picture line { stroke-width: 3; stroke: var(--ok); }
    .picture line.away { stroke: var(--fail); stroke-dasharray: 3 7; }
    .picture line.suspended { stroke: var(--warn); stroke-dasharray: 14 7; }
    .picture rect { fill: var(--paper); stroke: var(--ok); stroke-width: 2; }
    .picture .own rect { fill: var(--panel); stroke: var(--link); stroke-width: 3; }
    .picture .away rect { stroke: var(--fail); } .picture .suspended rect { stroke: var(--warn); }
    .picture text { fill: var(--ink); text-anchor: middle; font-size: 14px; }

    """

  /// Draws a page anew as events come. The server has escaped all of it, as for the page itself.
  static let script = """
    "use strict";
    const region = document.querySelector("[data-events]");
    const state = document.getElementById("live-state");
    if (region && window.EventSource) {
      const source = new EventSource(region.dataset.events);
      source.addEventListener("draw", (event) => {
        if (region.contains(document.activeElement)) {
          state.textContent = "Still, while the keyboard is in it.";
          return;
        }
        region.innerHTML = event.data;
        state.textContent = "Live, drawn at " + new Date().toLocaleTimeString() + ".";
      });
      source.addEventListener("leave", () => { source.close(); location.reload(); });
      source.addEventListener("error", () => { state.textContent = "Not live: the relay does not answer."; });
    }

    """
}
