import type { Offers } from "./offers";

/** The ids of the list and its entries. */
export const listID = "offers";
export const entryID = (i: number): string => `offer-${i}`;

/** The requested texts: arrows select, Enter or a click accepts. */
export function List({ of, onTake }: { of: Offers; onTake: (text: string) => void }) {
  const all = of.list.value;
  if (all.length === 0) return null;
  return (
    <ol class="offers" id={listID} role="listbox" aria-label="Suggestions">
      {all.map(({ text, probability }, i) => (
        <li key={text} id={entryID(i)} role="option" aria-selected={i === of.chosen.value}
          onMouseDown={(event) => {
            event.preventDefault(); // the sheet keeps the focus
            onTake(text);
          }}>
          <span class="said">{text.replaceAll("\n", "⏎")}</span>
          <span class="note">{Math.round(100 * probability)} %</span>
        </li>
      ))}
    </ol>
  );
}
