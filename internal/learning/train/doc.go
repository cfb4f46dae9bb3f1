// Package train makes models. It pretrains the slow weights of a Transformer-XL and meta-trains the
// learners of its fast weights, on a directory of text files. Run does all of it. Each call of Run
// is a sitting; a run that is interrupted and resumed has several. The subpackages read the text
// (corpus), move the weights (optim) and write reports for people (report).
//
// # Phases
//
// Pretraining reads the text as a batch of streams and trains the slow weights. The phase meta
// trains the meta-learners while the slow weights are frozen; the phase joint trains both. The
// phases meta and joint have two schemes, online and window.
//
// Online: one stream, whose domain changes, is scored and adapted exactly as in a session. An
// optimizer step uses the losses of a few chunks.
//
// Window, Algorithm 1 of the paper (Sparse Meta Networks): k-1 chunks write fast weights, and the
// loss of the k-th chunk gives an optimizer step. Then the fast weights are set to zero. The paper
// uses a joint phase.
//
// # Validation
//
// A phase ends with the weights that scored best on the validation text, which is not trained on.
// If there are meta-learners, the score is that with fast weights.
//
// # Determinism
//
// A run is a function of its options and its text. It depends neither on the number of threads nor
// on where it was interrupted. Everything random comes from counter-based generators; the learning
// rates depend only on the number of the step. A checkpoint has every array and counter. A resumed
// run writes the same model file, to the bit, as an uninterrupted one. Machines with different
// arithmetic (kernel.Arithmetic.Numerics) differ by rounding.
//
// # Observers
//
// A run writes checkpoints and the model, and nothing else. An Observer makes reports for people
// from the events of the run.
package train
