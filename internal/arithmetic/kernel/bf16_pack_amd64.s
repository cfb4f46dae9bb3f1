//go:build !noasm

#include "textflag.h"

// Go's assembler does not know VCVTNE2PS2BF16. ROUND rounds the floats of Z0 into the lower half of
// Z2, and those of Z1 into its upper half.
#define ROUND BYTE $0x62; BYTE $0xf2; BYTE $0x77; BYTE $0x48; BYTE $0x72; BYTE $0xd0

// PUT writes Z2 as the next 64 bytes of the tile. LINE writes the pairs of a line, which is in Z0
// and Z1. PAIRS writes the pairs of two rows, Z0 and Z1.
#define PUT VMOVDQU32 Z2, (DI); ADDQ $64, DI
#define LINE ROUND; PUT
#define PAIRS ROUND; VPERMW Z2, Z7, Z2; PUT

// func pairsAlongAVX512(dst *uint32, src, add *float32, stride, n int)
//
// A line is two cache lines. Those of the tile after the next one are fetched early.
TEXT ·pairsAlongAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ add+16(FP), DX
	MOVQ stride+24(FP), R8
	SHLQ $2, R8
	MOVQ n+32(FP), CX
	TESTQ DX, DX
	JNZ sum

line:
	PREFETCHT0 256(SI)
	PREFETCHT0 320(SI)
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	LINE
	ADDQ R8, SI
	DECQ CX
	JNZ line
	VZEROUPPER
	RET

sum:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VADDPS (DX), Z0, Z0
	VADDPS 64(DX), Z1, Z1
	LINE
	ADDQ R8, SI
	ADDQ R8, DX
	DECQ CX
	JNZ sum
	VZEROUPPER
	RET

// The order of the pairs of two rows: 0 16 1 17 ... 15 31.
DATA across<>+0(SB)/8, $0x0011000100100000
DATA across<>+8(SB)/8, $0x0013000300120002
DATA across<>+16(SB)/8, $0x0015000500140004
DATA across<>+24(SB)/8, $0x0017000700160006
DATA across<>+32(SB)/8, $0x0019000900180008
DATA across<>+40(SB)/8, $0x001b000b001a000a
DATA across<>+48(SB)/8, $0x001d000d001c000c
DATA across<>+56(SB)/8, $0x001f000f001e000e
GLOBL across<>(SB), RODATA|NOPTR, $64

// func pairsAcrossAVX512(dst *uint32, src, add *float32, stride int)
//
// A row of the tile is one cache line, often of a page of its own. The rows of the next tile, 32
// rows further on, are fetched early.
TEXT ·pairsAcrossAVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ add+16(FP), DX
	MOVQ stride+24(FP), R8
	SHLQ $2, R8
	VMOVDQU32 across<>(SB), Z7
	MOVQ $16, CX
	TESTQ DX, DX
	JNZ sums
	MOVQ R8, R9
	SHLQ $5, R9
	ADDQ SI, R9

pair:
	PREFETCHT0 (R9)
	PREFETCHT0 (R9)(R8*1)
	VMOVUPS (SI), Z0
	VMOVUPS (SI)(R8*1), Z1
	PAIRS
	LEAQ (SI)(R8*2), SI
	LEAQ (R9)(R8*2), R9
	DECQ CX
	JNZ pair
	VZEROUPPER
	RET

sums:
	VMOVUPS (SI), Z0
	VMOVUPS (SI)(R8*1), Z1
	VADDPS (DX), Z0, Z0
	VADDPS (DX)(R8*1), Z1, Z1
	PAIRS
	LEAQ (SI)(R8*2), SI
	LEAQ (DX)(R8*2), DX
	DECQ CX
	JNZ sums
	VZEROUPPER
	RET
