import type { Session } from "../api/types";
import { href } from "../state/route";
import { agoText, bitsText, grouped, perByte, sizeText, titleOf } from "../ui/words";

interface Props {
  sessions: Session[];
  chosen: string; // id or name
}

/** A table with one session per row. */
export function Table({ sessions, chosen }: Props) {
  return (
    <table class="numbers sessions">
      <thead>
        <tr>
          <th scope="col">Session</th><th scope="col">Text</th>
          <th scope="col">Bits per byte</th><th scope="col">Static</th>
          <th scope="col">Updates</th><th scope="col">Memory</th><th scope="col">Disk</th>
          <th scope="col">Used</th>
        </tr>
      </thead>
      <tbody>
        {sessions.map((session) => <Row key={session.id} of={session}
          chosen={chosen !== "" && (chosen === session.id || chosen === session.name)} />)}
      </tbody>
    </table>
  );
}

function Row({ of, chosen }: { of: Session; chosen: boolean }) {
  const { adapted, fixed } = perByte(of.totals);
  const labels = Object.entries(of.labels ?? {}).filter(([name]) => of.name || name !== "title");
  return (
    <tr class={chosen ? "chosen" : ""}>
      <th scope="row">
        <a href={href("sessions", of.id)} aria-current={chosen ? "true" : undefined}>
          {titleOf(of)}
        </a>
        {of.error && <span class="warning"> is unusable</span>}
        {labels.length > 0 && (
          <span class="labels">{labels.map(([name, value]) => (
            <span key={name}>{name}: {value}</span>
          ))}</span>
        )}
      </th>
      <td data-name="Text">{sizeText(of.offset)}</td>
      <td data-name="Bits per byte">{bitsText(adapted)}</td>
      <td data-name="Static">{bitsText(fixed)}</td>
      <td data-name="Updates">{grouped(of.step)}</td>
      <td data-name="Memory">{of.memory_bytes ? sizeText(of.memory_bytes) : "–"}</td>
      <td data-name="Disk">{sizeText(of.disk_bytes)}</td>
      <td data-name="Used" title={of.last_used_at}>
        {of.last_used_at ? agoText(of.last_used_at) : "–"}
      </td>
    </tr>
  );
}
