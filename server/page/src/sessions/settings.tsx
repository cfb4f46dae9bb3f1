import { useState } from "preact/hooks";
import { settings, type Setting } from "../api/settings";
import type { Model, Settings } from "../api/types";
import { models, networks } from "../state/feed";
import { modelTitle, settingTitle } from "../ui/words";

/** The methods of adaptation. */
const methods = settings.find(({ name }) => name === "method")?.words ?? [];

/** The model and settings of a new session; omitted ones have their defaults. */
export interface Adapting {
  model: string;
  method: string;
  values: Record<string, string | boolean>; // the other settings; numbers as typed
}

/** The settings in the server's form. */
export function settingsOf(adapting: Adapting): Partial<Settings> {
  const asked: Partial<Settings> = { method: adapting.method };
  for (const { name, kind } of shownFor(adapting)) {
    const value = adapting.values[name];
    if (typeof value === "boolean") asked[name] = value;
    if (typeof value !== "string") continue;
    const numbers = value.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (numbers.length > 0) asked[name] = kind === "numbers" ? numbers : numbers[0];
  }
  return asked;
}

const modelOf = ({ model }: Adapting): Model | undefined =>
  models.value.find(({ id }) => id === model) ?? models.value[0];

const isNetwork = (model: string): boolean => networks.value.some(({ id }) => id === model);

/** Changes the model, and also the method if the model does not support it. */
function withModel(of: Adapting, model: string): Adapting {
  const next = { ...of, model };
  if (isNetwork(model) === isNetwork(of.model)) return next;
  return { ...next, method: modelOf(next)?.defaults.method ?? of.method };
}

/** The settings besides the method that affect a session. */
function shownFor(of: Adapting): Setting[] {
  const model = modelOf(of);
  const isMixed = of.values.companion ?? model?.defaults.companion ?? false;
  const ofWords = model?.tokenizer === "words";
  return settings.filter(({ name, methods: those }) => {
    if (name === "method" || (name === "baseline" && !isNetwork(of.model))) return false;
    // The companion of a model of words is the cache, with its settings.
    if (isMixed && ofWords && those?.includes("cache")) return true;
    const isOfCounts = name.startsWith("companion_");
    return (!those || those.includes(of.method)) && (!isOfCounts || (isMixed && !ofWords));
  });
}

interface Props {
  of: Adapting;
  onChange: (adapting: Adapting) => void;
}

/** Chooses a model, a method and settings. */
export function ChooseSettings({ of, onChange }: Props) {
  const [isOpen, setOpen] = useState(false);
  const shown = shownFor(of);
  const change = (name: string, value: string | boolean): void =>
    onChange({ ...of, values: { ...of.values, [name]: value } });
  return (
    <>
      <div class="in-a-row">
        <label>Model
          <select value={of.model} onChange={(event) => {
            onChange(withModel(of, event.currentTarget.value));
          }}>
            {models.value.map((model) => (
              <option key={model.id} value={model.id}>{modelTitle(model, models.value)}</option>
            ))}
          </select>
        </label>
        <label>Method
          <select value={of.method} onChange={(event) => {
            onChange({ ...of, method: event.currentTarget.value });
          }}>
            {methods.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      </div>
      {shown.filter(({ kind }) => kind === "switch").map(({ name, help }) => (
        <label key={name} class="check">
          <input type="checkbox"
            checked={Boolean(of.values[name] ?? modelOf(of)?.defaults[name])}
            onChange={(event) => change(name, event.currentTarget.checked)} />
          <span>{settingTitle(name)} <span class="note">{help}</span></span>
        </label>
      ))}
      <button type="button" class="quiet" aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}>Further settings of {of.method}</button>
      {isOpen && (
        <div class="settings">
          {shown.filter(({ kind }) => kind !== "switch").map((setting) => (
            <NumberField key={setting.name} of={setting} model={modelOf(of)}
              typed={String(of.values[setting.name] ?? "")}
              onType={(typed) => change(setting.name, typed)} />
          ))}
        </div>
      )}
    </>
  );
}

interface NumberProps {
  of: Setting;
  model: Model | undefined;
  typed: string;
  onType: (typed: string) => void;
}

function NumberField({ of, model, typed, onType }: NumberProps) {
  const { name, kind, help, methods: those, min, max } = of;
  // The model does not report its defaults for dynamic evaluation.
  const isTold = !those?.some((method) => method.startsWith("dynamic"));
  const known = isTold ? model?.defaults[name] : undefined;
  const shared = {
    value: typed,
    placeholder: known === undefined ? "the model's default" : String(known),
    onInput: (event: { currentTarget: HTMLInputElement }) => onType(event.currentTarget.value),
  };
  return (
    <label>{settingTitle(name)} <span class="note">{help}</span>
      {kind === "numbers"
        ? <input {...shared} pattern="[0-9.,;\s]+" />
        : <input {...shared} type="number" min={min} max={max}
          step={kind === "whole" ? 1 : "any"} />}
    </label>
  );
}
