// Package companion keeps counts of a text beside a language model of bytes. It mixes both into
// one distribution over the next byte. The package uses the distributions of one or two neural
// networks, and does not run the networks.
//
// # Bits
//
// A byte is eight decisions, from its highest bit down. A node is a 1 followed by the bits of the
// byte that are known: node 1 before the first bit, nodes 2 to 255 after it. Every node has some
// inputs, each a logit ln P(1)/P(0):
//
//   - for each network, the logarithm of the ratio of its probabilities of the node's children;
//   - for each context, the estimate for the bit history seen in this context at this node;
//   - for each match (earlier text like the last bytes), whether the byte after it has a 1 here;
//   - a constant.
//
// Four rows of weights are used at a node. They are chosen by the class of the match, the node,
// the last byte and the byte before the last. The scalar product of row w_j and the inputs x is
// the logit a_j. The mean of the four logits is s. A table, the refinement r, contains the share
// of ones that followed earlier, for each s, node and last byte. P(1) is the mean of two
// probabilities:
//
//	a_j = w_j x    s = (a_1 + .. + a_4)/4    P(1) = (squash(s) + r(s))/2    squash(s) = 1/(1+e^-s)
//
// The probability of a byte is the product over its eight nodes. All 256 probabilities are fixed
// before the byte is known: nothing is learned within a byte. After the byte, each row follows the
// gradient of the row's loss, w_j += rate (bit - squash(a_j)) x. Histories, maps and refinements
// count the bits.
//
// A network that learns beside the counts uses the gradient of the mixture's loss with respect to
// the network's logits. Where the counts already predict well, this gradient is small.
//
// # Sources
//
// Mixing of context models by bits, bit histories in buckets of nibbles with check bytes, adaptive
// maps and matches come from the PAQ compressors. See M. Mahoney, Adaptive Weighing of Context
// Models for Lossless Data Compression, Florida Institute of Technology CS-2005-16, 2005. See also
// his Data Compression Explained, 2010 (sections 4.1 to 4.3). Maps of a final probability in a
// context are C. Bloom's secondary symbol estimation, 1996. The code is our own.
//
// # Reproducibility
//
// All arithmetic is float32 without fused multiply-add. Exponentials and logarithms are those of
// internal/arithmetic/kernel. Given the networks' distributions, results are bit-identical on
// every machine.
//
// # Files
//
// Each file uses only names from earlier files of this list: hash.go, history.go, table.go,
// match.go, place.go, inputs.go, settings.go, tree.go, state.go, journal.go, contexts.go, mix.go,
// scratch.go, gradient.go, learn.go, score.go, encode.go.
package companion
