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
    help: "how the session adapts",
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
    help: "the probability that an update writes one entry of the fast weights",
    methods: ["sparse-meta"],
    min: 0,
    max: 1,
  },
  {
    name: "gammas",
    kind: "numbers",
    help: "the decay of the gradient average from chunk to chunk, one number a bank of the model",
    methods: ["sparse-meta"],
    min: 0,
    max: 1,
  },
  {
    name: "beta1",
    kind: "number",
    help: "the weight of a chunk's gradient in the average",
    methods: ["sparse-meta"],
    min: 0,
    max: 1000,
  },
  {
    name: "beta2",
    kind: "number",
    help: "the weight of a chunk's gradient beside the average",
    methods: ["sparse-meta"],
    min: 0,
    max: 1000,
  },
  {
    name: "skip_below",
    kind: "number",
    help: "chunks that cost the network fewer bits a token teach nothing: they are not learnt from",
    methods: ["sparse-meta"],
    min: 0,
    max: 32,
  },
  {
    name: "rate",
    kind: "number",
    help: "the learning rate",
    methods: ["dynamic-sgd", "dynamic-rms"],
    min: 0,
    max: 1000,
  },
  {
    name: "decay",
    kind: "number",
    help: "the part of the fast weights that an update takes away",
    methods: ["dynamic-sgd", "dynamic-rms"],
    min: 0,
    max: 1,
  },
  {
    name: "floor",
    kind: "number",
    help: "what is added to a weight's root mean square, in units of the mean of its matrix",
    methods: ["dynamic-rms"],
    min: 0,
    max: 1000,
  },
  {
    name: "cache_size",
    kind: "whole",
    help: "how many tokens the cache remembers",
    methods: ["cache"],
    min: 1,
    max: 65536,
  },
  {
    name: "theta",
    kind: "number",
    help: "how sharply states like the present one are preferred",
    methods: ["cache"],
    min: 0,
    max: 1000,
  },
  {
    name: "lambda",
    kind: "number",
    help: "the share that the cache has in the probability",
    methods: ["cache"],
    min: 0,
    max: 1,
  },
  {
    name: "companion",
    kind: "switch",
    help: "whether the model's distribution is mixed with what the session's text has had so far",
  },
  {
    name: "companion_bytes",
    kind: "whole",
    help: "the size of the companion's table of counts, a power of two",
    min: 65536,
    max: 67108864,
  },
  {
    name: "companion_static",
    kind: "switch",
    help: "whether the companion mixes the static model's distribution in, too",
    methods: ["sparse-meta"],
  },
  {
    name: "baseline",
    kind: "switch",
    help: "whether every chunk is scored with the static model too",
  },
  // END GENERATED settings
];
