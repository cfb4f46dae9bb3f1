// The settings of sessions, as in the server's table.

/** A setting of sessions. */
export interface Setting {
  name: string;
  /** One of `words`, a boolean, an integer, a number, or a number for each bank of the model. */
  kind: "word" | "switch" | "whole" | "number" | "numbers";
  help: string; // description
  methods?: string[]; // methods with this setting; omitted: all
  words?: string[];
  min?: number; // for numbers
  max?: number;
}

export const settings: Setting[] = [
  // BEGIN GENERATED settings: `make generate` writes what stands here.
  {
    name: "method",
    kind: "word",
    help: "method by which the session adapts",
    words: ["static", "sparse-meta", "dynamic-sgd", "dynamic-rms", "cache", "counts"],
  },
  {
    name: "chunk",
    kind: "whole",
    help: "tokens between two updates of the fast weights",
    min: 1,
    max: 1024,
  },
  {
    name: "p",
    kind: "number",
    help: "probability that an update writes an entry of the fast weights",
    methods: ["sparse-meta"],
    min: 0,
    max: 1,
  },
  {
    name: "gammas",
    kind: "numbers",
    help: "decay of the gradient average from chunk to chunk, one number for each bank of the model",
    methods: ["sparse-meta"],
    min: 0,
    max: 1,
  },
  {
    name: "beta1",
    kind: "number",
    help: "weight of a chunk's gradient in the gradient average",
    methods: ["sparse-meta"],
    min: 0,
    max: 1000,
  },
  {
    name: "beta2",
    kind: "number",
    help: "weight of a chunk's gradient added to the average for this chunk alone",
    methods: ["sparse-meta"],
    min: 0,
    max: 1000,
  },
  {
    name: "skip_below",
    kind: "number",
    help: "bits per token below which the network does not learn from a chunk",
    methods: ["sparse-meta"],
    min: 0,
    max: 32,
  },
  {
    name: "rate",
    kind: "number",
    help: "learning rate",
    methods: ["dynamic-sgd", "dynamic-rms"],
    min: 0,
    max: 1000,
  },
  {
    name: "decay",
    kind: "number",
    help: "fraction of the fast weights that each update removes",
    methods: ["dynamic-sgd", "dynamic-rms"],
    min: 0,
    max: 1,
  },
  {
    name: "floor",
    kind: "number",
    help: "constant added to a weight's root mean square, relative to the mean of its matrix",
    methods: ["dynamic-rms"],
    min: 0,
    max: 1000,
  },
  {
    name: "cache_size",
    kind: "whole",
    help: "number of tokens that the cache holds",
    methods: ["cache"],
    min: 1,
    max: 65536,
  },
  {
    name: "theta",
    kind: "number",
    help: "sharpness with which the cache prefers states like the current one",
    methods: ["cache"],
    min: 0,
    max: 1000,
  },
  {
    name: "lambda",
    kind: "number",
    help: "weight of the cache in the mixture with the network",
    methods: ["cache"],
    min: 0,
    max: 1,
  },
  {
    name: "companion",
    kind: "switch",
    help: "mixing of the model's predictions with statistics of the session's text",
  },
  {
    name: "companion_bytes",
    kind: "whole",
    help: "size of the companion's table of counts, a power of two",
    min: 65536,
    max: 67108864,
  },
  {
    name: "companion_static",
    kind: "switch",
    help: "static model as a third part of the companion's mixture",
    methods: ["sparse-meta"],
  },
  {
    name: "baseline",
    kind: "switch",
    help: "scoring of every chunk with the static model as well",
  },
  // END GENERATED settings
];
