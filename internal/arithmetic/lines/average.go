package lines

// average is a mean that forgets. The zero value has seen nothing. Its fields are exported for
// encoding/binary.
type average struct {
	Mean float32
	Seen uint16 // how many values the mean is of, up to the number of those it remembers
}

// add takes in a value. An average remembers about the given number of its last values.
func (a *average) add(value float64, memory uint16) {
	a.Seen = min(a.Seen+1, memory)
	a.Mean += float32((value - float64(a.Mean)) / float64(a.Seen))
}

// with returns the average as if it had seen some more values, which are given by their mean.
func (a *average) with(more, mean float64) float64 {
	seen := float64(a.Seen)
	return (float64(seen*float64(a.Mean)) + float64(more*mean)) / (seen + more)
}
