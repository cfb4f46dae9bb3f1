// Package kernel is dense linear algebra on float32: matrix products, the
// vector functions around a softmax, a counter-based generator of random bits,
// and the threads that run them. Everything exists in portable Go. On amd64 with AVX2
// and FMA the inner loops are assembly, and with AVX-512 those of the products
// and of the update are wider.
//
// An [Exec] holds threads, scratch and an [Arithmetic]: the precision of its products and
// the set of instructions that it computes by. Nothing in the process decides beside it.
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
// two differ by rounding; [Arithmetic.Numerics] gives the two different names. AVX2 and
// AVX-512 give the same bits. Products in [BF16] keep the promise in an order of their own.
//
// # Products
//
// C is cut into pieces, which the threads claim. The work on a piece goes through the
// blocks of k, and in a block through panels of 16 or 32 columns of op(B): a panel is
// packed, with Add, into the first-level cache, and is then multiplied by every tile of 6
// or 12 rows of op(A), which stays in the second-level cache. With AVX-512, weights that meet the
// rows of one chunk are not packed, but those rows are: the tiles read the weights where they are
// and give C transposed. A product of one to four rows, as in decoding a text, does not pack: it
// reads every element of B once, as fast as the memory gives it.
//
// # Files
//
// A file names only what stands below it: types (matrix, array, large, grid, random, precision,
// instructions); the portable functions, which are the reference of the assembly
// (vector_portable, log_portable, dotrows_portable, pack, micro, peak, adam, adapt,
// bf16_portable); the stubs of the assembly (*_amd64, and assembly_other where there is none); the
// choice between the two (*_simd, vector_calls, bf16_kernels); the public vector functions (vector,
// log, dotrows, norm); a product on one thread (engine, product, gemm_streamed, gemm_float32,
// bf16_gemm); threads (gate, exec); and the products that use them (gemm).
package kernel
