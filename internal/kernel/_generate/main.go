// Command _generate writes the assembly of internal/kernel with avo; run it by
// `go generate` there. The portable Go beside the assembly says what each function
// computes and is the reference in the tests.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for rows := 1; rows <= tileRows; rows++ {
		tile(rows)
	}
	packRows(false)
	packRows(true)
	packCols(false)
	packCols(true)
	exp()
	dot()
	axpy()
	scale()
	largest()
	Generate()
}
