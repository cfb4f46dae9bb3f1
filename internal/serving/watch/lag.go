package watch

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// lookEvery is the minimum time between two measurements of how far scoring is behind while
	// text waits to be sent.
	lookEvery = 250 * time.Millisecond
	// rateOver is the time over which the rates of arriving and scored bytes are measured.
	rateOver = 15 * time.Second
	// samplesMax is the largest number of samples. If there are more, every second sample is
	// dropped.
	samplesMax = 2048
)

// sample holds two numbers at one moment: the bytes that had arrived so far, and the bytes that had
// been scored.
type sample struct {
	at         time.Time
	come, done int64
}

type lag struct {
	samples []sample
}

// Behind says how far scoring is behind the text that arrives from a source.
type Behind struct {
	Source string
	Bytes  int64         // number of bytes that have arrived but are not scored
	Age    time.Duration // how long the oldest unscored byte has waited
	In     float64       // bytes arriving per second
	Out    float64       // bytes scored per second
}

// String describes b in words.
func (b Behind) String() string {
	text := fmt.Sprintf("%s behind (%s)", bytesText(float64(b.Bytes)), seconds(b.Age))
	if b.Out > 0 {
		text += fmt.Sprintf("; %s/s arrive, %s/s are scored", bytesText(b.In), bytesText(b.Out))
	}
	if b.Out > b.In {
		left := float64(b.Bytes) / (b.Out - b.In)
		text += ", about " + seconds(time.Duration(left*float64(time.Second))) + " left"
	}
	return text
}

func bytesText(n float64) string { return humanize.IBytes(uint64(max(0, n))) }

func seconds(d time.Duration) string { return d.Round(time.Second).String() }

func (l *lag) due(now time.Time) bool {
	return len(l.samples) == 0 || now.Sub(l.samples[len(l.samples)-1].at) >= lookEvery
}

// look adds a sample and returns how far scoring is behind. The parameter come is the number of
// bytes that have arrived since the source was opened, and done is the number of scored bytes.
func (l *lag) look(now time.Time, come, done int64) Behind {
	l.samples = append(l.samples, sample{now, come, done})
	first := 0 // index of the first sample that is still needed for Age or the rates
	for first+1 < len(l.samples)-1 && l.samples[first+1].come <= done &&
		now.Sub(l.samples[first+1].at) > rateOver {
		first++
	}
	l.samples = l.samples[first:]
	if len(l.samples) > samplesMax {
		l.thin()
	}
	b := Behind{Bytes: come - done}
	for _, s := range l.samples {
		if s.come > done {
			b.Age = now.Sub(s.at)
			break
		}
	}
	from := l.samples[0]
	for _, s := range l.samples {
		if now.Sub(s.at) <= rateOver {
			break
		}
		from = s
	}
	if passed := now.Sub(from.at).Seconds(); passed >= 1 {
		b.In, b.Out = float64(come-from.come)/passed, float64(done-from.done)/passed
	}
	return b
}

func (l *lag) thin() {
	n := 0
	for i := 0; i < len(l.samples); i += 2 {
		l.samples[n] = l.samples[i]
		n++
	}
	l.samples = l.samples[:n]
}
