package conformance

// Check is the comparison of one tensor.
type Check struct {
	Tensor    string
	Error     float64 // largest absolute difference from the reference
	Tolerance float64 // maximum allowed Error
}

// OK reports whether the tensor is within tolerance. A NaN in Error is not.
func (c Check) OK() bool { return c.Error <= c.Tolerance }

// Report is the result of replaying a conformance file.
type Report struct {
	Kind   string
	Checks []Check
}
