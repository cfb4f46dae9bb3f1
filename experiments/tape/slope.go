package tape

// Slope returns the derivative of a loss with respect to element i of v, by central differences.
// Tests compare the result with the gradient from Backward.
func Slope(v *Var, i int, loss func() (*Tape, *Var)) float64 {
	const h = 1e-6
	x := v.Value[i]
	v.Value[i] = x + h
	_, up := loss()
	v.Value[i] = x - h
	_, down := loss()
	v.Value[i] = x
	return (up.Value[0] - down.Value[0]) / (2 * h)
}
