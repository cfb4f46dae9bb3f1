import { useEffect } from "preact/hooks";
import { chosenModel, knowModels, networks } from "../state/feed";
import { modelTitle, sizeText } from "../ui/words";

/** Chooses the model of the session that is begun next, where the server has several. */
export function ModelChoice() {
  useEffect(() => {
    // What it is that keeps the models from being known is told when a session is begun.
    const leaving = new AbortController();
    knowModels(leaving.signal).catch(() => undefined);
    return () => leaving.abort();
  }, []);
  const chosen = networks.value.find(({ id }) => id === chosenModel.value) ?? networks.value[0];
  if (networks.value.length < 2) return null;
  return (
    <p class="choose-model">
      <label>Model{" "}
        <select value={chosen.id} onChange={(event) => {
          chosenModel.value = event.currentTarget.value;
        }}>
          {networks.value.map((model) => (
            <option key={model.id} value={model.id}>{modelTitle(model, networks.value)}</option>
          ))}
        </select>
      </label>{" "}
      <span class="note">
        reads {chosen.tokenizer}; a session takes {sizeText(chosen.session_bytes)}
      </span>
    </p>
  );
}
