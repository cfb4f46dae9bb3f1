// Package train makes models from a directory of text files. It pretrains the slow weights of a
// Transformer-XL, and meta-trains the learners of its fast weights. The function Run does both. A
// run may be interrupted and resumed by another call of Run; each call is a sitting. The
// subpackages read the text (corpus), optimize the weights (optim) and write reports for people
// (report).
//
// # Phases
//
// Pretraining reads the text as a batch of streams and trains the slow weights. The phase meta
// trains the meta-learners while the slow weights are frozen. The phase joint trains both. The
// phases meta and joint have two schemes, online and window.
//
// Online: one stream, whose domain changes, is scored and adapted exactly as in a session. An
// optimizer step uses the losses of a few chunks.
//
// Window: the scheme is Algorithm 1 of the paper (Sparse Meta Networks). The first k-1 chunks write
// fast weights, and the loss of the k-th chunk gives an optimizer step. Then the fast weights are
// set to zero. The paper uses a joint phase.
//
// # Validation
//
// A phase ends with the weights that had the best score on the validation text, which is not used
// for training. If there are meta-learners, the score is measured with fast weights.
//
// # Determinism
//
// The result of a run depends only on the options and the text. It depends neither on the number of
// threads nor on interruptions. Random numbers come from counter-based generators, and learning
// rates depend only on the number of the step. A checkpoint contains every array and counter. A
// resumed run writes the same model file, bit for bit, as an uninterrupted run. Machines with
// different arithmetic (kernel.Arithmetic.Numerics) differ by rounding.
//
// # Observers
//
// A run writes only checkpoints and the model. An Observer makes reports for people from the events
// of the run.
package train
