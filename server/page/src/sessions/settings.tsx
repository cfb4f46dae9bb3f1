import { useState } from "preact/hooks";
import type { Model, Settings } from "../api/types";
import { models } from "../state/feed";

type Method = Settings["method"];
const methods: Method[] = ["sparse-meta", "dynamic-sgd", "dynamic-rms", "cache", "static"];

/** A setting that is a number, or of `gammas` one number a bank. */
interface Field {
  name: string;
  words: string;
  max: number;
  whole?: boolean;
}

const chunk: Field = { name: "chunk", words: "tokens between two updates", max: 1024, whole: true };
const rate: Field = { name: "rate", words: "learning rate", max: 1000 };
const decay: Field = { name: "decay", words: "taken away by an update", max: 1 };
const fields: Record<Method, Field[]> = {
  "sparse-meta": [
    chunk,
    { name: "p", words: "share of weights written", max: 1 },
    { name: "beta1", words: "gradient in the average", max: 1000 },
    { name: "beta2", words: "gradient beside the average", max: 1000 },
    { name: "gammas", words: "decay of the average, by bank", max: 1 },
  ],
  "dynamic-sgd": [chunk, rate, decay],
  "dynamic-rms": [chunk, rate, decay, { name: "floor", words: "added to the size", max: 1000 }],
  cache: [
    { name: "cache_size", words: "tokens remembered", max: 65536, whole: true },
    { name: "theta", words: "sharpness", max: 1000 },
    { name: "lambda", words: "share of the cache", max: 1 },
  ],
  static: [],
};

/** What a session is to run on, and how it is to adapt; what is left out has its default. */
export interface Adapting {
  model: string;
  method: Method;
  numbers: Record<string, string>; // as they were typed
}

/** The settings as the server takes them. */
export function settingsOf({ method, numbers }: Adapting): Partial<Settings> {
  const given = fields[method].flatMap(({ name }) => {
    const typed = (numbers[name] ?? "").split(/[\s,;]+/).filter(Boolean).map(Number);
    if (typed.length === 0) return [];
    return [[name, name === "gammas" ? typed : typed[0]]];
  });
  return { method, ...Object.fromEntries(given) };
}

interface Props {
  of: Adapting;
  onChange: (adapting: Adapting) => void;
}

/** Chooses a model, a method, and the method's settings. */
export function ChooseSettings({ of, onChange }: Props) {
  const [isOpen, setOpen] = useState(false);
  const model = models.value.find(({ id }) => id === of.model) ?? models.value[0];
  return (
    <>
      <div class="in-a-row">
        <label>Model
          <select value={of.model} onChange={(event) => {
            onChange({ ...of, model: event.currentTarget.value });
          }}>
            {models.value.map(({ id, name }) => <option key={id} value={id}>{name || id}</option>)}
          </select>
        </label>
        <label>Method
          <select value={of.method} onChange={(event) => {
            onChange({ ...of, method: event.currentTarget.value as Method });
          }}>
            {methods.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      </div>
      {fields[of.method].length > 0 && (
        <button type="button" class="quiet" aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}>Settings of {of.method}</button>
      )}
      {isOpen && (
        <div class="settings">
          {fields[of.method].map((field) => (
            <NumberField key={field.name} field={field} model={model} method={of.method}
              typed={of.numbers[field.name] ?? ""}
              onType={(typed) => onChange({
                ...of, numbers: { ...of.numbers, [field.name]: typed },
              })} />
          ))}
        </div>
      )}
    </>
  );
}

interface NumberProps {
  field: Field;
  model: Model | undefined;
  method: Method;
  typed: string;
  onType: (typed: string) => void;
}

function NumberField({ field, model, method, typed, onType }: NumberProps) {
  const { name, words, max, whole } = field;
  // The model does not tell its defaults of the two methods of dynamic evaluation.
  const isTold = name === "chunk" || !method.startsWith("dynamic");
  const known = isTold ? model?.defaults?.[name] : undefined;
  const shared = {
    value: typed,
    placeholder: known === undefined ? "as the model has it" : String(known),
    onInput: (event: { currentTarget: HTMLInputElement }) => onType(event.currentTarget.value),
  };
  return (
    <label>{name} <span class="note">{words}</span>
      {name === "gammas"
        ? <input {...shared} pattern="[0-9.,;\s]+" />
        : <input {...shared} type="number" min={whole ? 1 : 0} max={max}
          step={whole ? 1 : "any"} />}
    </label>
  );
}
