import { useEffect, useRef } from "preact/hooks";
import { giveKey, keyWanted } from "../state/key";

/** Asks for a key while one is needed. */
export function KeyDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const wanted = keyWanted.value;
  useEffect(() => {
    if (wanted === "no") dialog.current?.close();
    else if (!dialog.current?.open) dialog.current?.showModal();
  }, [wanted]);
  return (
    <dialog ref={dialog} class="key" aria-labelledby="key-title"
      onCancel={(event) => event.preventDefault()}
      onClose={() => { // browsers close the dialog at a second Escape, whatever the page says
        if (keyWanted.value !== "no") dialog.current?.showModal();
      }}>
      <form method="dialog" onSubmit={(event) => {
        event.preventDefault();
        if (input.current?.value) giveKey(input.current.value);
      }}>
        <h2 id="key-title">This server needs a key</h2>
        {wanted === "again" && <p class="warning" role="alert">The server rejected the key.</p>}
        <label for="key-input">Key</label>
        <input id="key-input" ref={input} type="password" autocomplete="off" spellcheck={false}
          placeholder="lms_…" required aria-describedby="key-note" />
        <p id="key-note" class="note">
          The key stays in this tab until the tab closes.
          The server's operator makes keys with <code>lmserve keys add</code>.
        </p>
        <button class="primary" type="submit">Use this key</button>
      </form>
    </dialog>
  );
}
