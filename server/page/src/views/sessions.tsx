import { useEffect, useMemo, useState } from "preact/hooks";
import { Details } from "../sessions/details";
import { SessionList, orders, type Order } from "../sessions/list";
import { Make } from "../sessions/make";
import { Table } from "../sessions/table";
import { Problem } from "../shell/problem";
import { reading, openProblem } from "../state/feed";
import { href, route } from "../state/route";
import { grouped } from "../ui/words";

/** Lists and manages the sessions. */
export function SessionsView() {
  const list = useMemo(() => new SessionList(), []);
  const [making, setMaking] = useState(false);
  useEffect(() => void list.refresh(), [list]);
  const { session: chosen } = route.value;
  const on = reading.value;
  const open = on && chosen ? on.session.value : null;
  const of = list.all.value.find(({ id, name }) => chosen && (id === chosen || name === chosen));
  return (
    <div class={`sessions-view${chosen ? " with-details" : ""}`}>
      <div class="list">
        <header class="head">
          <h1>Sessions</h1>
          <span class="in-a-row">
            <button type="button" onClick={() => void list.refresh()}>Refresh</button>
            <button type="button" class="primary" onClick={() => setMaking(true)}>
              New session…
            </button>
          </span>
        </header>
        <Find list={list} />
        {list.problem.value &&
          <Problem error={list.problem.value} again={() => void list.refresh()} />}
        {list.shown.value.length > 0 && <Table sessions={list.shown.value} chosen={chosen} />}
        <Foot list={list} />
      </div>
      {chosen && (
        <aside>
          <a class="back" href={href("sessions", "")}>Close</a>
          {openProblem.value && !of && <Problem error={openProblem.value} />}
          {(of ?? open) && (
            <Details key={(of ?? open)!.id} of={of ?? open!}
              on={open?.id === (of ?? open)!.id ? on : null} list={list} />
          )}
        </aside>
      )}
      {making && <Make list={list} onClose={() => setMaking(false)} />}
    </div>
  );
}

function Find({ list }: { list: SessionList }) {
  return (
    <search class="find">
      <label>Find <input type="search" value={list.query.value}
        placeholder="a name, an id, or a label such as host:web-1"
        onInput={(event) => {
          list.query.value = event.currentTarget.value;
        }} />
      </label>
      <label>Order <select value={list.order.value} onChange={(event) => {
        list.order.value = event.currentTarget.value as Order;
      }}>
        {Object.entries(orders).map(([order, words]) => (
          <option key={order} value={order}>{words}</option>
        ))}
      </select></label>
    </search>
  );
}

function Foot({ list }: { list: SessionList }) {
  const { count, all } = list.known.value;
  const found = list.found.value.length;
  const none = list.loading.value ? "Loading…"
    : list.problem.value && count === 0 ? " "
    : count === 0 ? "There is no session yet. Create a session, or read a text."
    : found === 0 ? `None of ${grouped(count)} sessions matches.`
    : "";
  return (
    <div class="foot">
      <span role="status" class="note">
        {none || `${grouped(list.shown.value.length)} of ${grouped(found)} sessions`}
        {!all && `, of the first ${grouped(count)} searched`}
      </span>
      {list.more.value && (
        <button type="button" disabled={list.loading.value} onClick={() => void list.showMore()}>
          Show more
        </button>
      )}
    </div>
  );
}
