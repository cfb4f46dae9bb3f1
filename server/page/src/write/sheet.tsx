import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { entryID, listID } from "./list";

interface Props {
  fixed: string; // the shown part of the session's text
  draft: string; // text written after it
  ghost: string; // suggestion at the cursor
  entry: number; // selected entry of the list; -1: no list
  onDraft: (draft: string, cursor: number) => void;
  onCursor: (cursor: number) => void; // counted from the start of the draft
  onKey: (event: KeyboardEvent) => void;
}

/**
 * A sheet for writing. It starts with the session's text, which cannot be edited. The visible
 * letters lie below a text area with transparent letters, so that fixed text and suggestions can
 * look different from the draft.
 */
export function Sheet({ fixed, draft, ghost, entry, onDraft, onCursor, onKey }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [refused, setRefused] = useState(false);
  const whole = fixed + draft;

  useLayoutEffect(() => {
    const a = area.current!;
    if (a.value === whole) return;
    const behind = a.value.length - a.selectionEnd; // keeps the cursor's distance from the end
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
          {/* A possible line break, so that a suggestion does not move written words. */}
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
