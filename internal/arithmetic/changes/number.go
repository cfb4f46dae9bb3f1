package changes

// A number is told when it is far above all numbers that stood at its place before. x = lg(.0001 +
// v); the place keeps the largest of this window and the one before, of 2,048 numbers each, and the
// mean and the mean deviation of x. With the largest of n numbers as x' and mean m,
//
//	score = 8 (x - x') / (2 deviation + (x' - m)/2 + 1) * n / (n + 128)

const (
	valueLeast   = 1e-4
	valuesKnown  = 64
	valuesWindow = 2048
	valuesMemory = 128
	numberTimes  = 8
)

// outlier is the number of a line that is furthest outside its past.
type outlier struct {
	score          float64
	of             event
	value, largest float64
	values         uint16
}

// number takes in a number at a place, x its logarithm.
func (d *Detector) number(l *line, of event, value, x float64) {
	p := &d.places[of.at]
	if largest := float64(max(p.Largest, p.Before)); value > largest && p.Values >= valuesKnown &&
		l.n > warmLines {
		most := lg(valueLeast + largest)
		n := float64(p.Values)
		width := float64(2*float64(p.Deviation)) + float64((most-float64(p.Mean))/2) + 1
		score := numberTimes * (x - most) / width * n / (n + valuesMemory)
		if score > l.outlier.score {
			l.outlier = outlier{score: score, of: of, value: value, largest: largest,
				values: p.Values}
		}
	}
	if p.Values == 0 {
		p.Mean = float32(x)
	}
	p.Largest = max(p.Largest, float32(value))
	p.Values++
	weight := 1 / float64(min(p.Values, valuesMemory))
	p.Mean += float32((x - float64(p.Mean)) * weight)
	p.Deviation += float32((max(x-float64(p.Mean),
		float64(p.Mean)-x) - float64(p.Deviation)) * weight)
	if p.Values == 2*valuesWindow {
		p.Before, p.Largest, p.Values = p.Largest, 0, valuesWindow
	}
}

// tellNumber tells the line's number that is furthest outside its past, like tellSurge.
func (d *Detector) tellNumber(l *line, each func(*Change)) {
	report := func() { each(d.numberOf(l)) }
	d.numbers.tell(numberLimits, l.n, &d.numberQuiet, l.outlier.score, report)
}
