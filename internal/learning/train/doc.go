// Package train makes models. It pretrains the slow weights of a Transformer-XL and meta-trains the
// learners of its fast weights, on a directory of text files. Run does all of it. A run that is
// interrupted and resumed has several sittings, one for each call of Run. The packages below this
// one have the text (corpus), the optimizers (optim) and the reports for people (report).
//
// # Phases
//
// Pretraining reads the text as a batch of streams and moves the slow weights. The phase meta moves
// the meta-learners while the slow weights are frozen; the phase joint moves both. These two phases
// have two schemes.
//
// Online: one stream of changing domains is scored and adapted exactly as in a session, and the
// losses of every few chunks make a step. Window, Algorithm 1 of the paper: k-1 chunks write fast
// weights, the loss of the k-th makes a step, and the fast weights are set to zero. The paper
// trains jointly.
//
// # Validation
//
// A phase ends with the weights that did best on validation text, which is not trained on: by the
// adaptive measure once there are meta-learners.
//
// # Determinism
//
// A run is a function of its options and its text. It depends neither on the number of threads nor
// on where it was interrupted. Everything random comes from counter-based generators; the learning
// rates depend only on the number of the step. A checkpoint has every array and counter, and a run
// resumed from it ends with the same bits, down to the model's file. Machines with different
// arithmetic (kernel.Arithmetic.Numerics) differ by rounding.
//
// # Observers
//
// A run writes checkpoints and the model, and nothing else. An Observer makes reports for people
// from the events of the run.
package train
