// Package companion keeps counts of a text beside a language model of bytes, and mixes both to one
// distribution over the next byte. It knows bytes and distributions, and no networks.
//
// # Bits
//
// A byte is eight decisions, from its highest bit down. A node is the bits of a byte that are known
// so far behind a leading 1: 1 before the first, 2 to 255 after some. At every node there are some
// inputs, each of which is a logit ln P(1)/P(0):
//
//   - of each network the ratio of its masses below the two children of the node;
//   - of each context the map of the bit history that was met in this context at this node;
//   - of each match whether the byte that followed a like text before has a 1 here;
//   - a constant.
//
// Four rows of weights, chosen by the class of the match, by the node, by the last byte and by the
// one before it, give a logit each, the scalar product of the row and the inputs. Their mean s is a
// probability, and P(1) is the mean of it and of its refinement, a table of what s came to behind
// the last byte:
//
//	a_j = w_j x    s = (a_1 + .. + a_4)/4    P(1) = (squash(s) + r(s))/2    squash(s) = 1/(1+e^-s)
//
// The probability of a byte is the product over its eight nodes. All 256 are fixed before the byte
// is known: nothing is learnt within a byte. When it is known, each row steps along the gradient of
// its own loss, w_j += rate (bit - squash(a_j)) x, and histories, maps and refinements take the
// bit.
//
// A network that learns beside the counts takes the gradient of the mixture's loss with respect to
// its logits; where the counts already know, little of it is left.
//
// # Sources
//
// Mixing of context models by bits, bit histories in buckets of nibbles with check bytes, adaptive
// maps and matches are those of the PAQ compressors: M. Mahoney, Adaptive Weighing of Context
// Models for Lossless Data Compression, Florida Institute of Technology CS-2005-16, 2005, and his
// Data Compression Explained, 2010 (sections 4.1 to 4.3). Maps of a final probability in a context
// are C. Bloom's secondary symbol estimation, 1996. The code is our own.
//
// # Order
//
// All bits are those of float32 arithmetic in which no product is fused with a sum, and of
// exponentials and logarithms of internal/arithmetic/kernel: given the networks' distributions they
// are the same on every machine.
//
// # Files
//
// A file names only what stands below it: hash; history (bit histories); table (their buckets);
// match; place (where a text has come to); inputs (what is mixed); settings; tree (networks as
// logits of nodes); state (all that is kept); journal (what a text changes of it); contexts; mix
// (the inputs at a node, and their mixture); scratch (what is computed with); gradient (of the loss
// by a network's logits); learn; score (the calls); encode.
package companion
