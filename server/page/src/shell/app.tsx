import type { FunctionComponent } from "preact";
import { reading, openProblem } from "../state/feed";
import { href, route, views, type View } from "../state/route";
import { titleOf } from "../ui/words";
import { nextTheme, theme } from "../state/theme";
import { IncidentsView } from "../views/incidents";
import { LearnView } from "../views/learn";
import { ReadView } from "../views/read";
import { SessionsView } from "../views/sessions";
import { WriteView } from "../views/write";
import { KeyDialog } from "./key";
import { Problem } from "./problem";

const shown: Record<View, { name: string; view: FunctionComponent }> = {
  read: { name: "Read", view: ReadView },
  incidents: { name: "Incidents", view: IncidentsView },
  learn: { name: "Learn", view: LearnView },
  write: { name: "Write", view: WriteView },
  sessions: { name: "Sessions", view: SessionsView },
};

/** The server's version, which the server writes into the document; "" if it is unknown. */
const version = document.querySelector<HTMLMetaElement>("meta[name=version]")?.content ?? "";

/** The whole page: navigation and the current view. */
export function App() {
  const at = route.value;
  const View = shown[at.view].view;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")!.focus();
      }}>Skip to the content</a>
      <header class="top">
        <a class="mark" href={href("read", "")} aria-label="lmserve: start again">lmserve</a>
        <nav aria-label="Views">
          {views.map((view) => (
            <a key={view} href={href(view)} aria-current={view === at.view ? "page" : undefined}>
              {shown[view].name}
            </a>
          ))}
        </nav>
        <SessionName />
        <a class="docs" href="docs">Docs</a>
        <button class="quiet theme" type="button" onClick={nextTheme}
          aria-label={`Colors: ${theme.value}. Change them.`}>
          <span aria-hidden="true">{{ auto: "◐", light: "○", dark: "●" }[theme.value]}</span>
        </button>
      </header>
      <main id="main" tabIndex={-1} class={`view-${at.view}`}>
        {at.view === "sessions" || at.view === "incidents" || reading.value || !at.session
          ? <View />
          : openProblem.value
            ? <Problem error={openProblem.value} />
            : <p class="note">Opening…</p>}
      </main>
      <footer class="about">
        <a href="docs">API documentation</a>
        {version && <span>lmserve {version}</span>}
      </footer>
      <KeyDialog />
    </>
  );
}

function SessionName() {
  const session = reading.value?.session.value;
  if (!session) return <span class="session-name" />;
  return <span class="session-name" title={session.id}>{titleOf(session)}</span>;
}
