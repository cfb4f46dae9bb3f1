//go:build !noasm

#include "textflag.h"

// Go's assembler does not know AMX. Tiles are numbers 0 to 7; the base of an address is
// the number of one of the first eight registers, its stride is in CX.
#define rAX 0
#define rDX 2
#define rBX 3
#define rSI 6
#define rDI 7

#define LDTILECFG_AX        BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x00
#define TILERELEASE         BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0
#define TILEZERO(t)         BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $(0xc0|t<<3)
#define TILELOADD(base, t)  BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $(0x04|t<<3); BYTE $(0x08|base)
#define TILESTORED(t, base) BYTE $0xc4; BYTE $0xe2; BYTE $0x7a; BYTE $0x4b; BYTE $(0x04|t<<3); BYTE $(0x08|base)
#define TDPBF16PS(b, a, c)  BYTE $0xc4; BYTE $0xe2; BYTE $(0x02|(15-b)<<3); BYTE $0x5c; BYTE $(0xc0|c<<3|a)

// Palette 1, and eight tiles of 16 rows of 64 bytes.
DATA tileConfig<>+0(SB)/8, $1
DATA tileConfig<>+8(SB)/8, $0
DATA tileConfig<>+16(SB)/8, $0x0040004000400040
DATA tileConfig<>+24(SB)/8, $0x0040004000400040
DATA tileConfig<>+32(SB)/8, $0
DATA tileConfig<>+40(SB)/8, $0
DATA tileConfig<>+48(SB)/8, $0x1010101010101010
DATA tileConfig<>+56(SB)/8, $0
GLOBL tileConfig<>(SB), RODATA|NOPTR, $64

// func amxBlocks(blocks, steps int, a, b *uint32, c *float32, stride int, acc bool)
//
// Tiles 0 to 3 are C (0,0), (0,1), (1,0), (1,1); 4 and 5 A; 6 and 7 B.
TEXT ·amxBlocks(SB), NOSPLIT, $0-49
	LEAQ tileConfig<>(SB), AX
	LDTILECFG_AX
	MOVQ a+16(FP), SI
	MOVQ c+32(FP), R8      // the upper half of the block
	MOVQ stride+40(FP), R9
	SHLQ $2, R9
	MOVQ R9, R10
	SHLQ $4, R10           // 16 rows of C

block:
	LEAQ (R8)(R10*1), AX   // its lower half
	MOVBLZX acc+48(FP), DX
	TESTL DX, DX
	JZ zero
	MOVQ R9, CX
	MOVQ R8, DX
	LEAQ 64(R8), BX
	LEAQ 64(AX), DI
	TILELOADD(rDX, 0)
	TILELOADD(rBX, 1)
	TILELOADD(rAX, 2)
	TILELOADD(rDI, 3)
	JMP sum
zero:
	TILEZERO(0)
	TILEZERO(1)
	TILEZERO(2)
	TILEZERO(3)

sum:
	MOVQ $64, CX
	MOVQ b+24(FP), DX
	MOVQ steps+8(FP), R11
step:
	LEAQ 1024(SI), DI
	LEAQ 1024(DX), BX
	TILELOADD(rSI, 4)
	TILELOADD(rDX, 6)
	TDPBF16PS(6, 4, 0)
	TILELOADD(rBX, 7)
	TDPBF16PS(7, 4, 1)
	TILELOADD(rDI, 5)
	TDPBF16PS(6, 5, 2)
	TDPBF16PS(7, 5, 3)
	ADDQ $2048, SI
	ADDQ $2048, DX
	DECQ R11
	JNZ step

	MOVQ R9, CX
	MOVQ R8, DX
	LEAQ 64(R8), BX
	LEAQ 64(AX), DI
	TILESTORED(0, rDX)
	TILESTORED(1, rBX)
	TILESTORED(2, rAX)
	TILESTORED(3, rDI)
	LEAQ (AX)(R10*1), R8
	DECQ blocks+0(FP)
	JNZ block
	TILERELEASE
	RET
