package changes

// A number v is reported when it is far above all earlier numbers at its place. Let x = lg(.0001 +
// v). The place counts in windows of 2,048 numbers, and keeps the largest number of the current
// and of the previous window. It also keeps the mean m and the mean deviation of x over the
// earlier numbers. If x' is the x of the largest of n numbers, then
//
//	score = 8 (x - x') / (2 deviation + (x' - m)/2 + 1) * n / (n + 128)

const (
	valueLeast   = 1e-4
	valuesKnown  = 64
	valuesWindow = 2048
	valuesMemory = 128
	numberTimes  = 8
)

// outlier is the line's number that is furthest above the earlier numbers of its place.
type outlier struct {
	score          float64
	of             event
	value, largest float64
	values         uint16
}

// number adds a number to the statistics of its place. x is the logarithm of the number.
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

// record reports whether a number is slightly above all earlier numbers of its place. Each number
// of a counter is a record, also between other numbers.
func (p *place) record(value, x float64) bool {
	largest := max(p.Largest, p.Before)
	return float32(value) > largest && x-lg(valueLeast+float64(largest)) < counterNear
}

func (d *Detector) tellNumber(l *line, each func(*Change)) {
	report := func() { each(d.numberOf(l)) }
	d.numbers.tell(numberLimits, l.n, &d.numberQuiet, l.outlier.score, report)
}
