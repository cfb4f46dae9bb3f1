package conformance

// Check is the comparison of one tensor.
type Check struct {
	Tensor    string
	Error     float64 // largest absolute difference
	Tolerance float64 // maximum of Error
}

// OK reports whether the tensor is within tolerance. NaN is not.
func (c Check) OK() bool { return c.Error <= c.Tolerance }

// Report is the result of checking one conformance file.
type Report struct {
	Kind   string
	Checks []Check
}
