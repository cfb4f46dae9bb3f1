import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { entryID, listID } from "./list";

interface Props {
  fixed: string; // the session's text, as far as it is shown
  draft: string; // what was written behind it
  ghost: string; // what is suggested at the cursor
  entry: number; // that is chosen of the list; -1: there is no list
  onDraft: (draft: string, cursor: number) => void;
  onCursor: (cursor: number) => void; // counted from where the draft begins
  onKey: (event: KeyboardEvent) => void;
}

/**
 * A sheet to write on. Its text begins with the session's, which cannot be changed. The letters
 * that one sees stand below the text area, whose own are transparent: so the fixed part and what
 * is suggested look different from what one writes.
 */
export function Sheet({ fixed, draft, ghost, entry, onDraft, onCursor, onKey }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [refused, setRefused] = useState(false);
  const whole = fixed + draft;

  useLayoutEffect(() => {
    const a = area.current!;
    if (a.value === whole) return;
    const behind = a.value.length - a.selectionEnd; // the cursor keeps its place from the end
    a.value = whole;
    const at = Math.max(fixed.length, whole.length - behind);
    a.setSelectionRange(at, at);
  }, [whole]);
  useLayoutEffect(() => {
    if (draft) area.current!.focus(); // no key is lost between two sheets
  }, []);
  useEffect(() => {
    const b = box.current!;
    const grown = new ResizeObserver(() => (b.scrollTop = b.scrollHeight));
    grown.observe(b.firstElementChild!);
    return () => grown.disconnect();
  }, []);

  const input = (): void => {
    const a = area.current!;
    const ok = a.value.startsWith(fixed);
    setRefused(!ok);
    if (ok) return onDraft(a.value.slice(fixed.length), a.selectionEnd - fixed.length);
    a.value = whole;
    a.setSelectionRange(whole.length, whole.length);
  };
  const moved = (): void => onCursor(Math.max(0, area.current!.selectionEnd - fixed.length));
  return (
    <>
      <div class="sheet" ref={box}>
        <div class="letters" aria-hidden="true">
          <span class="fixed">{fixed}</span>{draft}
          {/* Where a line may end: what is suggested moves no word that was written. */}
          {ghost && <wbr />}<span class="ghost">{ghost}</span>{"\n"}
        </div>
        <textarea ref={area} aria-label="Text" aria-describedby="sheet-note" spellcheck={false}
          autocomplete="off" autocapitalize="off" aria-autocomplete="both"
          aria-controls={entry < 0 ? undefined : listID}
          aria-activedescendant={entry < 0 ? undefined : entryID(entry)} onInput={input} onKeyDown={onKey}
          onKeyUp={moved} onClick={moved} onSelect={moved} />
      </div>
      <p id="sheet-note" class="note" role="status">
        {refused
          ? "The model has learned this part. Write below it, or fork the session at an earlier byte."
          : "The model has learned the gray text, so it cannot be edited."}
      </p>
      <p class="hidden" role="status">{ghost && `Suggested: ${ghost}`}</p>
    </>
  );
}
