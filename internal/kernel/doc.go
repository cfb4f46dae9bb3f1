// Package kernel is dense linear algebra on float32: matrix products, the
// vector functions around a softmax, a counter-based generator of random bits,
// and the threads that run them. Everything is portable Go; on amd64 with AVX2
// and FMA the inner loops are replaced at run time by assembly, those of the products
// by wider ones with AVX-512.
//
// # Order
//
// Streaming a text in pieces must not change a single bit of a score, so every
// product keeps this promise: element (i,j) depends on row i of the left
// operand, on column j of the right operand and on the order of k, and on
// nothing else. The sum over k is one chain of multiply-adds from k = 0 upwards
// inside each block of 256 k's, started at zero; the blocks are added in order.
// The shape of the product, the place of (i,j) in it, the edges of tiles and the
// number of threads have no part in it. So rows computed one at a time have the
// bits of rows computed together, and further k's whose products are zero change
// nothing.
//
// The assembly uses fused multiply-adds and the portable code does not, hence the
// two differ by rounding; [Numerics] names the arithmetic in use. AVX2 and AVX-512 give
// the same bits. Products in [BF16] keep the promise in an order of their own.
//
// # Products
//
// C is cut into pieces, which the threads claim. A piece goes through the blocks of k,
// and in a block through panels of 16 or 32 columns of op(B): a panel is packed, with
// Add, into the first-level cache, and then meets every tile of 6 or 12 rows of op(A),
// which stays in the second. Products of one row to four, which decoding a text is made
// of, do not pack: they read every element of B once, as fast as the memory gives it.
package kernel
