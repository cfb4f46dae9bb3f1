//go:build !noasm

#include "textflag.h"

// Go's assembler does not know VDPBF16PS. DOT adds to Z(sum), 0 to 15, the products of the pair of A
// that is so many words behind SI, at most 127, and the 16 pairs of Z(24+b): of the upper halves
// first, then of the lower ones.
#define DOT(word, b, sum) \
	BYTE $0x62; BYTE $(0xf2-0x80*((sum)>>3)); BYTE $(0x3e-8*b); BYTE $0x50; \
	BYTE $0x52; BYTE $(0x46+8*((sum)&7)); BYTE $(word)

// ROW takes two pairs of a row of A, PAIRS those of eight rows.
#define ROW(q, i) DOT(16*i+2*q, 0, i); DOT(16*i+2*q+1, 1, 8+i)
#define PAIRS(q) \
	VMOVDQU32 (128*q)(DX), Z24; VMOVDQU32 (128*q+64)(DX), Z25; \
	ROW(q, 0); ROW(q, 1); ROW(q, 2); ROW(q, 3); ROW(q, 4); ROW(q, 5); ROW(q, 6); ROW(q, 7)

#define ZERO(z) VPXORD z, z, z
#define ADD(even, odd, c) VADDPS odd, even, even; VADDPS even, c, c
#define LOAD(c) VMOVUPS (AX), c; ADDQ R9, AX
#define STORE(c) VMOVUPS c, (AX); ADDQ R9, AX

// func dotBlocks(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)
//
// Eight rows and 16 columns of C at a time, in Z16 to Z23; Z0 to Z7 are the chains of their even k's,
// Z8 to Z15 those of the odd ones.
TEXT ·dotBlocks(SB), NOSPLIT, $8-57
	// Sums, too, take what is subnormal for zero.
	STMXCSR mxcsr-8(SP)
	MOVL $0x9fc0, flushes-4(SP)
	LDMXCSR flushes-4(SP)

	MOVQ a+24(FP), R12
	MOVQ c+40(FP), R8
	MOVQ stride+48(FP), R9
	SHLQ $2, R9

block:
	MOVQ b+32(FP), R13     // the tiles of 16 columns
	MOVQ $2, BX
columns:
	MOVQ R12, R10          // the rows of A
	MOVQ R8, DI            // and of C
	MOVQ rows+8(FP), CX
	ADDQ $7, CX
	SHRQ $3, CX
rows:
	MOVBLZX acc+56(FP), AX
	TESTL AX, AX
	JZ zero
	MOVQ DI, AX
	LOAD(Z16)
	LOAD(Z17)
	LOAD(Z18)
	LOAD(Z19)
	LOAD(Z20)
	LOAD(Z21)
	LOAD(Z22)
	LOAD(Z23)
	JMP sum
zero:
	ZERO(Z16)
	ZERO(Z17)
	ZERO(Z18)
	ZERO(Z19)
	ZERO(Z20)
	ZERO(Z21)
	ZERO(Z22)
	ZERO(Z23)

sum:
	MOVQ R10, SI
	MOVQ R13, DX
	MOVQ steps+16(FP), R11
step:
	ZERO(Z0)
	ZERO(Z1)
	ZERO(Z2)
	ZERO(Z3)
	ZERO(Z4)
	ZERO(Z5)
	ZERO(Z6)
	ZERO(Z7)
	ZERO(Z8)
	ZERO(Z9)
	ZERO(Z10)
	ZERO(Z11)
	ZERO(Z12)
	ZERO(Z13)
	ZERO(Z14)
	ZERO(Z15)
	PAIRS(0)
	PAIRS(1)
	PAIRS(2)
	PAIRS(3)
	PAIRS(4)
	PAIRS(5)
	PAIRS(6)
	PAIRS(7)
	ADD(Z0, Z8, Z16)
	ADD(Z1, Z9, Z17)
	ADD(Z2, Z10, Z18)
	ADD(Z3, Z11, Z19)
	ADD(Z4, Z12, Z20)
	ADD(Z5, Z13, Z21)
	ADD(Z6, Z14, Z22)
	ADD(Z7, Z15, Z23)
	ADDQ $2048, SI
	ADDQ $2048, DX
	DECQ R11
	JNZ step

	MOVQ DI, AX
	STORE(Z16)
	STORE(Z17)
	STORE(Z18)
	STORE(Z19)
	STORE(Z20)
	STORE(Z21)
	STORE(Z22)
	STORE(Z23)
	MOVQ AX, DI
	ADDQ $512, R10
	DECQ CX
	JNZ rows

	ADDQ $1024, R13
	ADDQ $64, R8
	DECQ BX
	JNZ columns

	LEAQ -64(DI), R8       // the block below
	MOVQ steps+16(FP), AX
	SHLQ $11, AX
	ADDQ AX, R12
	DECQ blocks+0(FP)
	JNZ block
	LDMXCSR mxcsr-8(SP)
	VZEROUPPER
	RET
