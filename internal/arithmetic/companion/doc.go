// Package companion keeps counts of a text beside a language model of bytes, and mixes both into
// one distribution over the next byte. It gets the networks' distributions, not the networks.
//
// # Bits
//
// A byte is eight decisions, from its highest bit down. A node is a 1 followed by the bits of the
// byte that are known: node 1 before the first bit, nodes 2 to 255 after it. Every node has some
// inputs, each a logit ln P(1)/P(0):
//
//   - for each network, the ratio of its probabilities of the two children of the node;
//   - for each context, the estimate for the bit history seen in this context at this node;
//   - for each match, whether the byte that followed a similar text has a 1 here;
//   - a constant.
//
// Four rows of weights are chosen by the class of the match, by the node, by the last byte and by
// the byte before it. Each row gives a logit, the scalar product of the row and the inputs. Their
// mean s is a probability. A table, the refinement, maps s and the last byte to the share of ones
// that followed. P(1) is the mean of both:
//
//	a_j = w_j x    s = (a_1 + .. + a_4)/4    P(1) = (squash(s) + r(s))/2    squash(s) = 1/(1+e^-s)
//
// The probability of a byte is the product over its eight nodes. All 256 probabilities are fixed
// before the byte is known: nothing is learned within a byte. After the byte, each row follows the
// gradient of the row's loss, w_j += rate (bit - squash(a_j)) x. Histories, maps and refinements
// count the bits.
//
// A network that learns beside the counts uses the gradient of the mixture's loss with respect to
// its logits. Where the counts already predict well, this gradient is small.
//
// # Sources
//
// Mixing of context models by bits, bit histories in buckets of nibbles with check bytes,
// adaptive maps and matches come from the PAQ compressors. See M. Mahoney, Adaptive Weighing of
// Context Models for Lossless Data Compression, Florida Institute of Technology CS-2005-16, 2005.
// See also his Data Compression Explained, 2010 (sections 4.1 to 4.3). Maps of a final
// probability in a context are C. Bloom's secondary symbol estimation, 1996. The code is our own.
//
// # Order
//
// All arithmetic is float32 without fused multiply-add. Exponentials and logarithms are those of
// internal/arithmetic/kernel. Given the networks' distributions, the bits are the same on every
// machine.
//
// # Files
//
// A file uses only names from files before it in this list: hash; history (bit histories); table
// (their buckets); match; place (position in a text); inputs (of the mixer); settings; tree
// (networks as logits of nodes); state (all that is kept); journal (changes of a state by a
// text); contexts; mix (the inputs at a node, and their mixture); scratch (working memory);
// gradient (of the loss by a network's logits); learn; score (the calls); encode.
package companion
