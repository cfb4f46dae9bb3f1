// Command _generate writes the assembly of internal/arithmetic/kernel with the library avo, one
// file per set of functions. `go generate` in that package runs the command. Portable Go next to
// the assembly defines each function and is the reference in the tests.
package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

var sets = map[string]func(){
	"adam":   adam,
	"adapt":  adapt,
	"bf16":   bf16,
	"gemm":   gemm,
	"dot":    rows,
	"log":    log,
	"peak":   peak,
	"vector": vector,
}

// main expects the name of a set of functions and the flags of avo, or "calls" and the names of
// stub files.
func main() {
	if len(os.Args) > 2 && os.Args[1] == "calls" {
		if err := calls(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) < 2 || sets[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: _generate SET -out FILE.s -stubs FILE.go -pkg kernel")
		os.Exit(2)
	}
	set := sets[os.Args[1]]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	ConstraintExpr("!noasm")
	set()
	Generate()
}

func gemm() {
	for _, s := range []isa{avx2, avx512} {
		for rows := 1; rows <= s.rows; rows++ {
			s.tile(rows)
		}
	}
	prefetch()
	packRows(false)
	packRows(true)
	addTransposed()
	packCols(false)
	packCols(true)
	packLeft(1)
	packLeft(2)
	for _, rows := range []int{1, 2, 4} {
		fewRows(rows)
	}
	sumRows()
}

func vector() {
	e := newExponential()
	e.exp()
	dot()
	axpy()
	scale()
	largest()
	add()
	relu()
	reluBackward()
	softmaxBackward()
	n := newNormal(e)
	n.gelu()
	n.geluBackward()
	sum()
	squares()
	normalize()
	normDots()
	normBackward()
	normGain()
	widen()
	addWiden()
}
