import { useId } from "preact/hooks";

interface Props<T> {
  label: string;
  options: { value: T; name: string }[];
  value: T;
  onChoose: (value: T) => void;
}

/** A choice among a few options. */
export function Choice<T>({ label, options, value, onChoose }: Props<T>) {
  const id = useId();
  return (
    <span class="labelled">
      <span id={id}>{label}</span>
      <span class="choice" role="group" aria-labelledby={id}>
        {options.map((option) => (
          <button key={option.name} type="button" aria-pressed={option.value === value}
            onClick={() => onChoose(option.value)}>{option.name}</button>
        ))}
      </span>
    </span>
  );
}
