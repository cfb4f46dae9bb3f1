package kernel

//go:generate sh -c "cd _generate && go run . vector -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg kernel"
//go:generate sh -c "cd _generate && go run . calls ../vector_amd64.go ../log_amd64.go | gofmt > ../vector_calls.go"
//go:generate sh -c "sh _generate/other.sh | gofmt > assembly_other.go"

// eights returns how many of n elements the assembly processes: a multiple of eight. Portable Go
// processes the rest.
func (v Vectors) eights(n int) int {
	if v.set < AVX2 {
		return 0
	}
	return n &^ 7
}
