import Mustache

/// The console's pages. Mustache escapes every value.
enum ConsoleTemplates {
  /// - Throws: when a template is faulty, which a start would show.
  static func library() throws -> MustacheLibrary {
    MustacheLibrary(templates: try texts.mapValues { try MustacheTemplate(string: $0) })
  }

  /// By name. `NAME` is a page, `NAME-live` the part of it that is drawn anew.
  static let texts = [
    "layout": layout, "sign-in": signIn, "refused": refused, "overview": page("overview"),
    "overview-live": overview, "peers": page("peers"), "peers-live": peers, "peer": peer, "test": test,
    "queues": page("queues"), "queues-live": queues, "push": push, "doctor": page("doctor"), "doctor-live": doctor,
    "audit": audit, "unlock": unlock, "fault": #"<p class="notice fail" role="alert">{{fault}}</p>"#,
  ]

  private static func page(_ name: String) -> String {
    """
    {{<layout}}{{$content}}
    <p class="live" id="live-state" role="status">Drawn at {{time}}.</p>
    <div data-events="/console/events?page=\(name)">
    {{>\(name)-live}}
    </div>
    {{/content}}{{/layout}}
    """
  }

  private static let layout = """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{{title}} - {{relay}}</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="/console/console.css">
    <script src="/console/console.js" defer></script>
    {{#isLive}}<noscript><meta http-equiv="refresh" content="15"></noscript>{{/isLive}}
    </head>
    <body>
    <a class="skip" href="#main">Skip to the page</a>
    <header>
    <p class="relay">Relay <strong>{{relay}}</strong></p>
    {{#session}}
    <nav aria-label="Pages"><ul>
    {{#pages}}<li><a href="{{path}}"{{#isHere}} aria-current="page"{{/isHere}}>{{name}}</a></li>
    {{/pages}}</ul></nav>
    <form method="post" action="/console/leave"><input type="hidden" name="form" value="{{formKey}}">
    <button>Sign out</button></form>
    {{/session}}
    </header>
    <main id="main">
    <h1>{{title}}</h1>
    {{$content}}{{/content}}
    </main>
    </body>
    </html>

    """

  private static let signIn = """
    {{<layout}}{{$content}}
    {{#fault}}<p class="notice fail" role="alert">{{fault}}</p>{{/fault}}
    <form method="post" action="/console/sign-in" class="panel">
    <label for="token">Token</label>
    <input id="token" name="token" type="password" required autocomplete="current-password" aria-describedby="hint">
    <p id="hint">One of <code>operator.read-tokens</code> or <code>operator.change-tokens</code>.</p>
    <button>Sign in</button>
    </form>
    {{/content}}{{/layout}}
    """

  private static let refused = """
    {{<layout}}{{$content}}
    <p class="notice fail" role="alert">{{fault}}</p>
    <p><a href="/console">Overview</a></p>
    {{/content}}{{/layout}}
    """

  private static let overview = """
    {{#reasons}}<p class="notice fail" role="alert">Not ready: {{check}}: {{reason}}</p>
    {{/reasons}}
    <dl class="figures">
    {{#figures}}<div><dt>{{name}}</dt><dd class="{{mark}}">{{value}}</dd></div>
    {{/figures}}</dl>
    <h2 id="requests">Requests</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="requests"><table>
    <thead><tr><th scope="col">Listener</th><th scope="col" class="n">a second</th><th scope="col" class="n">half within, ms</th>
    <th scope="col" class="n">99 of 100, ms</th><th scope="col" class="n">4xx a second</th><th scope="col" class="n">5xx a second</th></tr></thead>
    <tbody>{{#requests}}<tr><th scope="row">{{edge}}</th><td class="n">{{rate}}</td><td class="n">{{p50}}</td>
    <td class="n">{{p99}}</td><td class="n">{{refused}}</td><td class="n {{failedMark}}">{{failed}}</td></tr>
    {{/requests}}{{^requests}}<tr><td colspan="6">No request has come yet.</td></tr>{{/requests}}</tbody></table></div>
    <h2 id="senders">Who sends most</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="senders"><table>
    <thead><tr><th scope="col">Account</th><th scope="col" class="n">messages a minute</th></tr></thead>
    <tbody>{{#senders}}<tr><th scope="row"><code>{{handle}}</code></th><td class="n">{{rate}}</td></tr>
    {{/senders}}{{^senders}}<tr><td colspan="2">Nobody in the last minute.</td></tr>{{/senders}}</tbody></table></div>
    """

  private static let peers = """
    {{^identity}}<p class="notice warn">Federation is off: set <code>federation.url</code>, and run <code>relay ca init</code>.</p>{{/identity}}
    {{#identity}}
    <dl class="figures">
    <div><dt>Our words</dt><dd class="words">{{words}}</dd></div>
    <div><dt>Our certificate</dt><dd class="{{leafMark}}">{{leaf}}</dd></div>
    <div><dt>Our CA</dt><dd class="{{authorityMark}}">{{authority}}</dd></div>
    </dl>
    {{/identity}}
    {{#picture}}{{{svg}}}{{/picture}}
    <h2 id="list">All peers</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="list"><table>
    <thead><tr><th scope="col">Peer</th><th scope="col">State</th><th scope="col">Certificate</th><th scope="col">CA</th>
    <th scope="col">Contacts</th><th scope="col">Holds</th><th scope="col" class="n">out a second</th>
    <th scope="col" class="n">in a second</th><th scope="col" class="n">waiting</th></tr></thead>
    <tbody>{{#peers}}<tr><th scope="row"><a href="/console/peers/{{name}}">{{name}}</a></th>
    <td class="{{mark}}">{{state}}</td><td class="{{leafMark}}">{{leaf}}</td><td class="{{authorityMark}}">{{authority}}</td>
    <td>{{contacts}}</td><td>{{holds}}</td><td class="n">{{sent}}</td><td class="n">{{received}}</td><td class="n">{{waiting}}</td></tr>
    {{/peers}}{{^peers}}<tr><td colspan="9">No peers. <code>relay peer invite</code> makes an invitation for one.</td></tr>{{/peers}}</tbody></table></div>
    """

  private static let peer = """
    {{<layout}}{{$content}}
    {{#done}}<p class="notice ok" role="status">{{done}}</p>{{/done}}
    {{#peer}}
    <dl class="figures">
    <div><dt>State</dt><dd class="{{mark}}">{{state}}</dd></div>
    <div><dt>URL</dt><dd>{{url}}</dd></div>
    <div><dt>Certificate</dt><dd class="{{leafMark}}">{{leaf}}</dd></div>
    <div><dt>CA</dt><dd class="{{authorityMark}}">{{authority}}</dd></div>
    <div><dt>Their words</dt><dd class="words">{{theirWords}}</dd></div>
    <div><dt>Our words</dt><dd class="words">{{ourWords}}</dd></div>
    <div><dt>May ask of us</dt><dd>{{scopes}}</dd></div>
    <div><dt>Contacts</dt><dd>{{contacts}}</dd></div>
    <div><dt>Messages are held</dt><dd>{{holds}}</dd></div>
    <div><dt>Clients reach it without naming it</dt><dd>{{implicit}}</dd></div>
    </dl>
    <h2 id="budgets">What this relay may still do there</h2>
    {{#budgetFault}}<p class="notice warn">{{budgetFault}}</p>{{/budgetFault}}
    {{^budgetFault}}
    <div class="scroll" tabindex="0" role="region" aria-labelledby="budgets"><table>
    <thead><tr><th scope="col">Budget</th><th scope="col" class="n">left</th><th scope="col" class="n">of</th>
    <th scope="col" class="n">fills a minute</th><th scope="col">Share</th></tr></thead>
    <tbody>{{#budgets}}<tr><th scope="row">{{name}}</th><td class="n">{{left}}</td><td class="n">{{size}}</td>
    <td class="n">{{perMinute}}</td><td><meter min="0" max="100" value="{{share}}" aria-label="{{name}}">{{share}} %</meter></td></tr>
    {{/budgets}}</tbody></table></div>
    {{/budgetFault}}
    <h2>Change</h2>
    {{#mayChange}}
    <div class="actions">
    <form method="post" action="/console/peers/{{name}}/test"><input type="hidden" name="form" value="{{formKey}}">
    <button>Test the way to {{name}}</button></form>
    <form method="post" action="/console/peers/{{name}}/retry"><input type="hidden" name="form" value="{{formKey}}">
    <button>Try what waits now</button></form>
    {{#isSuspended}}<form method="post" action="/console/peers/{{name}}/resume">
    <input type="hidden" name="form" value="{{formKey}}"><button>Resume</button></form>{{/isSuspended}}
    {{^isSuspended}}<form method="post" action="/console/peers/{{name}}/suspend">
    <input type="hidden" name="form" value="{{formKey}}">
    <label for="reason">Reason, for your own people</label><input id="reason" name="reason" maxlength="200">
    <button class="danger">Suspend {{name}}</button></form>{{/isSuspended}}
    </div>
    {{/mayChange}}
    {{^mayChange}}<p><a href="/console/unlock?back=/console/peers/{{name}}">Enter a change token</a> to test, suspend or
    resume this peer.</p>{{/mayChange}}
    {{/peer}}
    {{/content}}{{/layout}}
    """

  private static let test = """
    {{<layout}}{{$content}}
    <p class="notice {{mark}}" role="status">{{verdict}}</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Steps"><table>
    <thead><tr><th scope="col">Result</th><th scope="col">Step</th><th scope="col">What was seen</th>
    <th scope="col" class="n">ms</th></tr></thead>
    <tbody>{{#steps}}<tr><td class="{{outcome}}">{{outcome}}</td><th scope="row">{{step}}</th>
    <td>{{text}}{{#remedy}}<br><strong>{{remedy}}</strong>{{/remedy}}</td><td class="n">{{milliseconds}}</td></tr>
    {{/steps}}</tbody></table></div>
    <p><a href="/console/peers/{{name}}">Back to {{name}}</a></p>
    {{/content}}{{/layout}}
    """

  private static let queues = """
    <h2 id="outbox">Messages that wait for peers</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="outbox"><table>
    <thead><tr><th scope="col">Peer</th><th scope="col" class="n">messages</th><th scope="col" class="n">size</th>
    <th scope="col" class="n">oldest</th><th scope="col">Next attempt</th></tr></thead>
    <tbody>{{#outbox}}<tr><th scope="row"><a href="/console/peers/{{name}}">{{name}}</a></th><td class="n">{{messages}}</td>
    <td class="n">{{bytes}}</td><td class="n">{{oldest}}</td><td>{{next}}</td></tr>
    {{/outbox}}{{^outbox}}<tr><td colspan="5">Nothing waits for any peer.</td></tr>{{/outbox}}</tbody></table></div>
    <h2 id="pushes">Pushes</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="pushes"><table>
    <thead><tr><th scope="col">Queue</th><th scope="col">Provider</th><th scope="col" class="n">sent a second</th>
    <th scope="col" class="n">failed a second</th><th scope="col" class="n">waiting</th><th scope="col" class="n">oldest</th>
    <th scope="col" class="n">left alone</th></tr></thead>
    <tbody>{{#lanes}}<tr><th scope="row">{{name}}</th><td>{{provider}}</td><td class="n">{{sent}}</td><td class="n {{failedMark}}">{{failed}}</td>
    <td class="n">{{waiting}}</td><td class="n">{{oldest}}</td><td class="n">{{halted}}</td></tr>
    {{/lanes}}{{^lanes}}<tr><td colspan="7">No push service is configured.</td></tr>{{/lanes}}</tbody></table></div>
    """

  private static let push = """
    {{<layout}}{{$content}}
    {{#fault}}<p class="notice fail" role="alert">{{fault}}</p>{{/fault}}
    <form method="get" action="/console/push" class="panel">
    <label for="device">Device</label>
    <input id="device" name="device" value="{{device}}" required maxlength="64" aria-describedby="hint" spellcheck="false">
    <p id="hint">A handle, and the device behind a point: <code>HANDLE.1</code>. <code>relay accounts show</code> tells the
    handle of a number, which has no place in an address.</p>
    <button>Show attempts</button>
    </form>
    {{#isAsked}}
    <div class="scroll" tabindex="0" role="region" aria-label="Attempts"><table>
    <thead><tr><th scope="col">Asked</th><th scope="col">Provider</th><th scope="col">Sent</th><th scope="col">Answer</th>
    <th scope="col" class="n">ms</th><th scope="col">Outcome</th><th scope="col">What to do</th></tr></thead>
    <tbody>{{#attempts}}<tr><th scope="row">{{asked}}</th><td>{{provider}}</td><td>{{sent}}</td><td>{{answer}}</td>
    <td class="n">{{milliseconds}}</td><td>{{outcome}}</td><td>{{fault}}</td></tr>
    {{/attempts}}{{^attempts}}<tr><td colspan="7">Nobody has tried to wake this device lately.</td></tr>{{/attempts}}</tbody></table></div>
    {{/isAsked}}
    {{/content}}{{/layout}}
    """

  private static let doctor = """
    <p class="notice {{mark}}" role="status">{{verdict}}</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Findings"><table>
    <thead><tr><th scope="col">Result</th><th scope="col">Part</th><th scope="col">Check</th>
    <th scope="col">What was found</th></tr></thead>
    <tbody>{{#findings}}<tr><td class="{{outcome}}">{{outcome}}</td><td>{{group}}</td><th scope="row">{{check}}</th>
    <td>{{text}}{{#remedy}}<br><strong>{{remedy}}</strong>{{/remedy}}</td></tr>
    {{/findings}}</tbody></table></div>
    """

  private static let audit = """
    {{<layout}}{{$content}}
    <div class="scroll" tabindex="0" role="region" aria-label="Entries"><table>
    <thead><tr><th scope="col">Time</th><th scope="col">Who</th><th scope="col">Did</th><th scope="col">To</th>
    <th scope="col">Result</th></tr></thead>
    <tbody>{{#entries}}<tr><th scope="row">{{time}}</th><td>{{who}}</td><td>{{action}}</td><td><code>{{subject}}</code></td>
    <td class="{{mark}}">{{result}}</td></tr>
    {{/entries}}{{^entries}}<tr><td colspan="5">Nothing was changed yet.</td></tr>{{/entries}}</tbody></table></div>
    {{#older}}<p><a href="/console/audit?before={{older}}">Older entries</a></p>{{/older}}
    {{/content}}{{/layout}}
    """

  private static let unlock = """
    {{<layout}}{{$content}}
    {{#fault}}<p class="notice fail" role="alert">{{fault}}</p>{{/fault}}
    <form method="post" action="/console/unlock" class="panel">
    <input type="hidden" name="form" value="{{formKey}}"><input type="hidden" name="back" value="{{back}}">
    <label for="token">Change token</label>
    <input id="token" name="token" type="password" required autocomplete="off" aria-describedby="hint">
    <p id="hint">One of <code>operator.change-tokens</code>. It holds for fifteen minutes; what you change stands in the
    audit log under its name.</p>
    <button>Allow changes</button>
    </form>
    {{/content}}{{/layout}}
    """
}
