// Package train makes models: it pretrains the slow weights of a Transformer-XL and meta-trains the
// learners of its fast weights, on a directory of text files. Run does all of it. A run that is
// interrupted and resumed has several sittings, one for each call of Run. The packages below this
// one hold the text (corpus), the optimisers (optim) and what people read of a run (report).
//
// # Phases
//
// Pretraining reads the text as a batch of streams and moves the slow weights. The phase meta moves
// the meta-learners while the slow weights stand still, the phase joint moves both. These two have
// two schemes. Online: one stream of changing domains is scored and adapted to exactly as a session
// would be, and the losses of every few chunks make a step. Window, Algorithm 1 of the paper: k-1
// chunks write fast weights, the loss of the k-th makes a step, and the fast weights go back to
// zero; the paper trains jointly.
//
// # Validation
//
// A phase ends with the weights that did best on text that is not trained on: by the adaptive
// measure once there are meta-learners.
//
// # Determinism
//
// A run is a function of its options and its text: not of the number of threads, and not of where
// it was interrupted. Everything random comes from counter-based generators; the learning rates
// depend on the number of the step alone. A checkpoint holds every array and counter, and a run
// resumed from it ends with the same bits, down to the model's file. Machines whose arithmetic
// differs (kernel.Arithmetic.Numerics) differ by rounding.
//
// # Observers
//
// A run writes checkpoints and the model, and nothing else. Whatever a person reads of it, an
// Observer makes from the events that the run tells.
package train
