// Package kernel is dense linear algebra on float32. It has matrix products, vector functions, a
// counter-based generator of random bits, and the threads that run them. Everything exists in
// portable Go. On amd64 with AVX2 and FMA, the inner loops are assembly. With AVX-512, the loops
// of the products and of Adapt use wider vectors.
//
// An [Exec] holds threads, scratch memory and an [Arithmetic]: the precision of its products and
// its instruction set. No global state affects its results.
//
// # Order
//
// Streaming a text in pieces must not change a single bit of a score. So each product guarantees an
// order of the additions for its element (i,j). The element depends only on row i of the left
// operand and on column j of the right operand. The values of k are cut into blocks of 256. In each
// block, the sum is one chain of multiply-adds in the order of k, starting at zero. The sums of the
// blocks are added in order. The shape of the product, the position of (i,j), the edges of tiles
// and the number of threads do not matter. So rows computed one at a time are bit-identical to rows
// computed together. Appending zeros along k changes nothing.
//
// The assembly uses fused multiply-adds and the portable code does not, so their results differ by
// rounding. [Arithmetic.Numerics] gives them different names. AVX2 and AVX-512 give identical
// bits. Products in [BF16] guarantee a different order.
//
// # Products
//
// C is cut into pieces, which the threads claim. A thread iterates over the blocks of k, and in a
// block over panels of 16 or 32 columns of op(B). It packs a panel, including the fast weights in
// Matrix.Add, into the first-level cache. Then it multiplies the panel by every tile of 6 or 12
// rows of op(A), which stays in the second-level cache. With AVX-512, a product of the rows of a
// chunk and the model's weights packs the rows instead. Its tiles read the weights in place and
// compute C transposed. A product of one to four rows, as in generation, does not pack. It reads
// every element of B once, as fast as the memory allows.
//
// # Files
//
// A file uses only names from files before it in this list. Types: matrix, array, large, grid,
// random, precision, instructions. The portable functions, the reference of the assembly:
// vector_portable, log_portable, dotrows_portable, pack, micro, peak, adam, adapt, bf16_portable.
// The stubs of the assembly: *_amd64, or assembly_other without assembly. The choice between
// portable and assembly functions: *_simd, vector_calls, bf16_kernels. The public vector functions:
// vector, log, dotrows, norm. A product on one thread: engine, product, gemm_streamed,
// gemm_float32, bf16_gemm. Threads: gate, exec. The products that use threads: gemm.
package kernel
