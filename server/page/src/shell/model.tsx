import { useEffect } from "preact/hooks";
import { chosenModel, knowModels, networks } from "../state/feed";
import { modelTitle, sizeText } from "../ui/words";

/** Chooses the model of the next new session, if the server has several. */
export function ModelChoice() {
  useEffect(() => {
    // An error of loading the models is shown when a session is started.
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
