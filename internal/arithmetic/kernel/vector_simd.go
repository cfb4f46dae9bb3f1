package kernel

//go:generate sh -c "cd _generate && go run . vector -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg kernel"
//go:generate sh -c "cd _generate && go run . calls ../vector_amd64.go ../log_amd64.go | gofmt > ../vector_calls.go"
//go:generate sh -c "sh _generate/other.sh | gofmt > assembly_other.go"

// eights returns the number of elements, of n, that the assembly processes. Portable Go processes
// the others.
func (v Vectors) eights(n int) int {
	if v.set < AVX2 {
		return 0
	}
	return n &^ 7
}
