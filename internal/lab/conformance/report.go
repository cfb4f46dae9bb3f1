package conformance

// Check is one tensor compared.
type Check struct {
	Tensor    string
	Error     float64 // largest absolute difference
	Tolerance float64 // what it may be
}

// OK tells whether the tensor is within tolerance. NaN is not.
func (c Check) OK() bool { return c.Error <= c.Tolerance }

// Report is the outcome of one file.
type Report struct {
	Kind   string
	Checks []Check
}
