// The start of the page: the link to the server, the shell, and the view that the URL names.

import { Cursor } from "./charts/cursor.js";
import { runBanner } from "./page/banner.js";
import { runShell } from "./page/shell.js";
import { History } from "./server/history.js";
import { Link } from "./server/link.js";
import { connectionsView } from "./views/connections.js";
import { durabilityView } from "./views/durability.js";
import { limitsView } from "./views/limits.js";
import { methodsView } from "./views/methods.js";
import { overviewView } from "./views/overview.js";
import { roundsView } from "./views/rounds.js";
import { serverView } from "./views/server.js";
import { slowCallsView } from "./views/slow_calls.js";
import { tablesView } from "./views/tables.js";

// `make (context, scope)` returns the element. The scope is closed when the user leaves the view.
const VIEWS = [
  { id: "overview", title: "Overview", make: overviewView },
  { id: "methods", title: "Methods", make: methodsView },
  { id: "tables", title: "Tables", make: tablesView },
  { id: "rounds", title: "Rounds", make: roundsView },
  { id: "connections", title: "Connections", make: connectionsView },
  { id: "limits", title: "Budgets and quotas", make: limitsView },
  { id: "durability", title: "Log and snapshots", make: durabilityView },
  { id: "slow", title: "Slow calls", make: slowCallsView },
  { id: "server", title: "Server", make: serverView },
];

const history = new History();
const link = new Link({
  hello: (hello) => history.setHello(hello),
  sample: (sample) => history.add(sample),
});

runBanner(link);
runShell(VIEWS, { history, link, cursor: new Cursor(), pause: { isOn: false } });
addEventListener("pagehide", () => link.suspend());
addEventListener("pageshow", () => link.resume());
link.run();
